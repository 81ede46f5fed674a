"""This machine's Node and npm, and the registry they may reach, from npm's own configuration.

A repository's `.npmrc` is never read. Blocks: call it in a thread.
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
from sandbox.install.package_index import host_of

SECONDS = 30.0
_UNCONFIGURED = ("--userconfig=/nowhere/user", "--globalconfig=/nowhere/global")
CERTIFICATES = ("NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE")


@dataclass(frozen=True, slots=True)
class Registry:
    """`url` is for npm inside, `hosts` ("name:port") are what its proxy reaches.

    `named` are the hosts a lock may use: npm reads its own default as the configured registry.
    """

    node: str  # versions
    npm: str
    url: str
    hosts: frozenset[str]
    named: frozenset[str]
    certificates: Path | None = None


def is_installed() -> bool:
    """Whether this machine has Node and npm."""
    return shutil.which("node") is not None and shutil.which("npm") is not None


@cache
def configured() -> Registry:
    """Raises `InstallFailed` without npm."""
    if not is_installed():
        raise InstallFailed("the repository needs Node and npm, which are not installed on this machine")
    url = _output_of("npm", "config", "get", "registry")
    if not url.startswith(("http://", "https://")) or "@" in url:
        raise InstallFailed("npm is configured with a registry that needs a password or is not http(s)")
    default = _output_of("npm", "config", "get", "registry", *_UNCONFIGURED, env=_bare_environment())
    paths = [Path(os.environ[name]) for name in CERTIFICATES if os.environ.get(name)]
    certificates = next((path for path in paths if path.is_file()), None)
    hosts = frozenset((host_of(url),))
    named = hosts | {host_of(default)}
    return Registry(_output_of("node", "--version"), _output_of("npm", "--version"), url, hosts, named, certificates)


def _bare_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.lower().startswith("npm_config_")}


def _output_of(*argv: str, env: Mapping[str, str] | None = None) -> str:
    # Outside any project, so that no `.npmrc` of one applies.
    try:
        ended = subprocess.run(argv, cwd="/", env=env, capture_output=True, timeout=SECONDS, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise InstallFailed(f"`{' '.join(argv)}` does not work on this machine: {error}") from error
    return ended.stdout.decode(errors="replace").strip()
