"""uv's Pythons: those it finds on this machine and those it downloads, outside any sandbox.

uv's source is trusted (the operator may name a mirror in uv's variables); a repository only names a version. Each version is
tried once per process, so that a machine without network pays for it once.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sandbox.base import SandboxUnavailable
from sandbox.host import launch
from sandbox.install.python import interpreters, wheels
from sandbox.install.python.interpreters import Interpreter, Version

FIND_SECONDS, FETCH_SECONDS = 15.0, 120.0
CONNECT_SECONDS = "2"  # uv's connection timeout; it retries by itself on some errors only
_PASSED_ON = ("UV_PYTHON_INSTALL_MIRROR", "UV_PYTHON_DOWNLOADS_JSON_URL", "UV_SYSTEM_CERTS", "UV_NATIVE_TLS")


@dataclass(slots=True)
class ManagedPythons:
    """`folder` holds the downloads, if `downloads` are allowed."""

    folder: Path
    downloads: bool = True
    _found: dict[Version, Interpreter] | None = None
    _tried: dict[Version, Interpreter | None] = field(default_factory=dict)
    _one: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def installed(self) -> dict[Version, Interpreter]:
        """The newest installed CPython of each minor version."""
        async with self._one:
            if self._found is None:
                self._found = await self._look()
            return dict(self._found)

    async def fetched(self, version: Version) -> Interpreter | None:
        """The interpreter of this version, downloaded if needed; None if unavailable."""
        async with self._one:
            if version not in self._tried:
                self._tried[version] = await self._fetch(version)
            return self._tried[version]

    async def _look(self) -> dict[Version, Interpreter]:
        listing = ("list", "--only-installed", "--output-format", "json", "--no-python-downloads")
        # Twice, because uv looks into one folder of its own: the operator's and ours.
        answers = await asyncio.gather(self._uv(listing, {}), self._uv(listing, self._into))
        found: dict[Version, Interpreter] = {}
        for path in dict.fromkeys(path for answer in answers for path in _paths(answer)):
            python = await interpreters.ask(path)
            if python is not None and (python.minor not in found or found[python.minor].parts < python.parts):
                found[python.minor] = python
        return found

    async def _fetch(self, version: Version) -> Interpreter | None:
        if not self.downloads:
            return None
        wanted = f"cpython-{version[0]}.{version[1]}"
        if await self._uv(("install", "--no-bin", wanted), self._into, FETCH_SECONDS) is None:
            return None
        found = await self._uv(("find", "--managed-python", "--no-python-downloads", "--no-project", wanted), self._into)
        python = await interpreters.ask(found.strip()) if found else None
        return python if python is not None and python.minor == version else None

    @property
    def _into(self) -> dict[str, str]:
        return {"UV_PYTHON_INSTALL_DIR": str(self.folder.resolve())}

    async def _uv(self, arguments: Sequence[str], env: dict[str, str], seconds: float = FIND_SECONDS) -> str | None:
        """The output of `uv python …`; None if it fails or uv is missing."""
        if (program := wheels.uv_binary()) is None:
            return None
        variables = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        variables |= wheels.environment(os.environ)
        variables |= {
            "UV_NO_CONFIG": "1",
            "UV_NO_PROGRESS": "1",
            "UV_HTTP_RETRIES": "0",
            "UV_HTTP_CONNECT_TIMEOUT": CONNECT_SECONDS,
        }
        try:
            result = await launch.run(launch.Launch((str(program), "python", *arguments), variables | env, seconds, cwd="/"))
        except SandboxUnavailable:
            return None
        return result.stdout.decode(errors="replace") if result.returncode == 0 and not result.timed_out else None


def _paths(listing: str | None) -> list[str]:
    """Paths of the default CPythons in uv's JSON."""
    try:
        found = json.loads(listing or "[]")
        return [
            str(one["path"])
            for one in found
            if one["implementation"] == "cpython" and one["variant"] == "default" and one["path"] is not None
        ]
    except (ValueError, KeyError, TypeError):
        return []
