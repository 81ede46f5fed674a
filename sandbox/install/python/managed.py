"""Pythons of uv: those that it finds on this machine, and those that it downloads, outside of any sandbox.

uv's own source is trusted (the operator may name a mirror in uv's variables); a repository only says a version. Each version
is tried once a process, so that a machine without a network pays for it once.
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
CONNECT_SECONDS = "2"  # without an answer for so long, uv gives up; it asks again by itself only on some errors
_PASSED_ON = ("UV_PYTHON_INSTALL_MIRROR", "UV_PYTHON_DOWNLOADS_JSON_URL", "UV_SYSTEM_CERTS", "UV_NATIVE_TLS")


@dataclass(slots=True)
class Managed:
    """`folder` keeps what is downloaded. `downloads`: whether anything may be."""

    folder: Path
    downloads: bool = True
    _found: dict[Version, Interpreter] | None = None
    _tried: dict[Version, Interpreter | None] = field(default_factory=dict)
    _one: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def installed(self) -> dict[Version, Interpreter]:
        """What is on this machine already: the newest CPython of each minor version, asked who it is."""
        async with self._one:
            if self._found is None:
                self._found = await self._look()
            return dict(self._found)

    async def fetched(self, version: Version) -> Interpreter | None:
        """The one of this version, downloaded unless it is there; None where it cannot be had."""
        async with self._one:
            if version not in self._tried:
                self._tried[version] = await self._fetch(version)
            return self._tried[version]

    async def _look(self) -> dict[Version, Interpreter]:
        listing = ("list", "--only-installed", "--output-format", "json", "--no-python-downloads")
        # Once those of the operator, and once ours: uv looks into one folder of its own.
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

    async def _uv(self, asked: Sequence[str], env: dict[str, str], seconds: float = FIND_SECONDS) -> str | None:
        """What `uv python …` prints; None where it fails, or there is no uv."""
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
            said = await launch.run(launch.Launch((str(program), "python", *asked), variables | env, seconds, cwd="/"))
        except SandboxUnavailable:
            return None
        return said.stdout.decode(errors="replace") if said.returncode == 0 and not said.late else None


def _paths(listing: str | None) -> list[str]:
    """Of the ordinary CPythons in uv's JSON."""
    try:
        found = json.loads(listing or "[]")
        return [
            str(one["path"])
            for one in found
            if one["implementation"] == "cpython" and one["variant"] == "default" and one["path"] is not None
        ]
    except (ValueError, KeyError, TypeError):
        return []
