"""Which Node and npm this machine has, and which registry they may reach: read from npm's own configuration.

Never written down here, and never taken from a repository's `.npmrc`. Blocks: call it in a thread.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from sandbox.base import InstallFailed
from sandbox.install.index.access import host_of

SECONDS = 30.0
_UNCONFIGURED = ("--userconfig=/nowhere/user", "--globalconfig=/nowhere/global")
CERTIFICATES = ("NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE")


@dataclass(frozen=True, slots=True)
class Registry:
    """`url` is what npm is told inside, `hosts` ("name:port") what its way out leads to.

    `named` are what a lock may call it: npm reads its own default as the one that is configured.
    """

    node: str  # versions
    npm: str
    url: str
    hosts: frozenset[str]
    named: frozenset[str]
    certificates: Path | None = None


def is_there() -> bool:
    """Whether this machine has Node and npm."""
    return shutil.which("node") is not None and shutil.which("npm") is not None


@cache
def configured() -> Registry:
    """Raises `InstallFailed` where there is no npm."""
    if not is_there():
        raise InstallFailed("the repository needs Node and npm, which this machine does not have")
    url = _said("npm", "config", "get", "registry")
    if not url.startswith(("http://", "https://")) or "@" in url:
        raise InstallFailed("npm's configuration names no registry that can be reached without a password")
    default = _said("npm", "config", "get", "registry", *_UNCONFIGURED, env=_bare_environment())
    paths = [Path(os.environ[name]) for name in CERTIFICATES if os.environ.get(name)]
    certificates = next((path for path in paths if path.is_file()), None)
    hosts = frozenset((host_of(url),))
    named = hosts | {host_of(default)}
    return Registry(_said("node", "--version"), _said("npm", "--version"), url, hosts, named, certificates)


def _bare_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.lower().startswith("npm_config_")}


def _said(*argv: str, env: Mapping[str, str] | None = None) -> str:
    # Outside of any project: its own `.npmrc` has no say.
    try:
        ended = subprocess.run(argv, cwd="/", env=env, capture_output=True, timeout=SECONDS, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise InstallFailed(f"`{' '.join(argv)}` does not work on this machine: {error}") from error
    return ended.stdout.decode(errors="replace").strip()
