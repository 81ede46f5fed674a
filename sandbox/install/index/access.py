"""Which package index an install step may reach, from the package client's own configuration."""

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
    """`urls` are for the installer inside; `hosts` ("name:port") are what the proxy lets it reach."""

    urls: tuple[str, ...]
    hosts: frozenset[str]
    certificates: Path | None = None


class LazyIndexAccess:
    """The result of `configured`, determined on first use: pip is slow to ask, and most attempts never need it."""

    def __init__(self, hosts: Sequence[str] = ()) -> None:
        self._hosts = hosts
        self._access: IndexAccess | None = None
        self._lock = asyncio.Lock()

    async def access(self) -> IndexAccess:
        async with self._lock:  # several jobs may ask at once
            if self._access is None:
                self._access = await configured(self._hosts)
        return self._access


async def configured(hosts: Sequence[str] = ()) -> IndexAccess:
    """Access by pip's configuration, or pip's default index. The operator's `hosts` take precedence.

    An index URL with a password is used outside only: no secret enters a sandbox.
    """
    settings = await _pip_settings()
    urls = [url for url in (settings.get("index-url", ""), *settings.get("extra-index-url", "").split()) if _usable(url)]
    derived = {host_of(url) for url in urls}
    if "index-url" not in settings:
        from pip._internal.models.index import PyPI  # not a stable interface, but the only source of pip's default

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
    """Option → value, with pip's own precedence of files and environment."""
    ended = await launch.run(launch.Launch((sys.executable, "-I", "-m", "pip", "config", "list"), os.environ, 30.0))
    found: dict[str, str] = {}
    lines = ended.stdout.decode(errors="replace").splitlines()
    # The environment overrides files, and a command's section overrides the global one.
    for section in ("global.", "download.", "install.", ":env:."):
        for line in lines:
            name, separator, value = line.partition("=")
            if separator and name.startswith(section):
                found[name.removeprefix(section)] = str(ast.literal_eval(value))
    return found
