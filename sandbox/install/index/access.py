"""Which package index an install step may reach: read from the package client's own configuration, never written down here."""

from __future__ import annotations

import ast
import asyncio
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from sandbox.host import launch

PORTS = {"https": 443, "http": 80}


@dataclass(frozen=True, slots=True)
class IndexAccess:
    """`urls` are given to the installer inside; `hosts` ("name:port") are what the way out leads to."""

    urls: tuple[str, ...]
    hosts: frozenset[str]
    certificates: Path | None = None


class Unasked:
    """What `configured` says of these `hosts`, asked when it is first wanted: pip takes its time, and most want nothing."""

    def __init__(self, hosts: Sequence[str] = ()) -> None:
        self._hosts = hosts
        self._told: IndexAccess | None = None
        self._asking = asyncio.Lock()

    async def access(self) -> IndexAccess:
        async with self._asking:  # several jobs want it at once
            if self._told is None:
                self._told = await configured(self._hosts)
        return self._told


async def configured(hosts: Sequence[str] = ()) -> IndexAccess:
    """From pip's configuration and, where that names no index, pip's own default. `hosts` of the operator win.

    An index address with a password is only used outside: no secret enters a sandbox.
    """
    settings = await _pip_settings()
    urls = [url for url in (settings.get("index-url", ""), *settings.get("extra-index-url", "").split()) if _usable(url)]
    derived = {host_of(url) for url in urls}
    if "index-url" not in settings:
        from pip._internal.models.index import PyPI  # pip's only place for it; not a stable interface, but a small one

        urls.insert(0, PyPI.simple_url)
        derived |= {host_of(PyPI.simple_url), f"{PyPI.file_storage_domain}:{PORTS['https']}"}
    named = frozenset(host if ":" in host else f"{host}:{PORTS['https']}" for host in hosts)
    return IndexAccess(tuple(urls), named or frozenset(derived), _certificates(settings.get("cert")))


def host_of(url: str) -> str:
    """`https://a.example/simple` → `a.example:443`."""
    parts = urlsplit(url)
    return f"{parts.hostname}:{parts.port or PORTS.get(parts.scheme, 443)}"


def _usable(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme in PORTS and bool(parts.hostname) and "@" not in parts.netloc


def _certificates(configured_path: str | None) -> Path | None:
    for path in (configured_path, os.environ.get("SSL_CERT_FILE"), "/etc/ssl/certs/ca-certificates.crt"):
        if path and Path(path).is_file():
            return Path(path)
    return None


async def _pip_settings() -> dict[str, str]:
    """Option → value, as pip itself weighs its files and the environment."""
    ended = await launch.run(launch.Launch((sys.executable, "-I", "-m", "pip", "config", "list"), os.environ, 30.0))
    found: dict[str, str] = {}
    lines = ended.stdout.decode(errors="replace").splitlines()
    # The environment beats files, and a command's own section beats the global one.
    for section in ("global.", "download.", "install.", ":env:."):
        for line in lines:
            name, separator, value = line.partition("=")
            if separator and name.startswith(section):
                found[name.removeprefix(section)] = str(ast.literal_eval(value))
    return found
