"""This machine's Pythons, and the one to run a repository with.

Considers the worker's own interpreter, `python3.X` on its PATH, the usual other locations (pyenv, uv, `/opt`, `/usr/local`, a
runner's tool cache) and those of `managed`; runs each isolated (`-I`) to identify it. The code under test sees the
interpreter's whole tree, so one whose tree is or contains a home folder is skipped.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias

Version: TypeAlias = tuple[int, int]
SUPPORTED = tuple((3, minor) for minor in range(8, 16))
_WHO = """
import json, os, sys
version = ".".join(map(str, sys.version_info[:3]))
print(json.dumps([os.path.realpath(sys.executable), os.path.realpath(sys.base_prefix), version]))
"""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """`path` is the program, `prefix` the tree that it needs to run, `version` is "3.11.7"."""

    path: str
    prefix: str
    version: str

    @property
    def parts(self) -> tuple[int, ...]:
        return tuple(int(part) for part in self.version.split("."))

    @property
    def minor(self) -> Version:
        return self.parts[0], self.parts[1]


class PythonSource(Protocol):
    """Additional Pythons, installed or downloadable (`managed`)."""

    async def installed(self) -> dict[Version, Interpreter]: ...

    async def fetched(self, version: Version) -> Interpreter | None: ...


def own() -> Interpreter:
    """The worker's interpreter, without its virtual environment."""
    path = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
    return Interpreter(path, os.path.realpath(sys.base_prefix), ".".join(map(str, sys.version_info[:3])))


async def choose(wanted: str | None, managed: PythonSource | None = None) -> Interpreter:
    """The interpreter nearest to `wanted`: this machine's, then one that is `managed` (downloaded if needed), else a neighbour.

    `wanted` is "3.12", "3.12.4", "3.13t", ">=3.12", "pypy3.10" …; its first minor version counts, as CPython.
    """
    mine = own()
    target = _minor(wanted) if wanted else None
    if target is None or target == mine.minor:
        return mine
    if (found := await find(target)) or (managed is None and target not in SUPPORTED):
        return found or mine
    others = {} if managed is None else await managed.installed()
    if managed is not None and target in SUPPORTED and (found := others.get(target) or await managed.fetched(target)):
        return found
    for version in sorted(SUPPORTED, key=lambda version: (abs(version[1] - target[1]), version)):
        if version == mine.minor:
            return mine
        if found := await find(version) or others.get(version):
            return found
    return mine


def runs_as(wanted: str | None, version: str) -> bool:
    """Whether `version` satisfies `wanted`, so that no note is needed."""
    if wanted is None:
        return True
    exact = re.fullmatch(r"\s*v?(3\.\d+(?:\.\d+)?)(?:\.x|-dev)?\s*", wanted)
    if exact:
        return f"{version}.".startswith(f"{exact[1]}.")
    return _minor(wanted) is None  # "3.x", "latest": any version


def _minor(wanted: str) -> Version | None:
    found = re.search(r"(?<![\d.])3\.(\d{1,2})(?!\d)", wanted)
    return (3, int(found[1])) if found else None


def _name(version: Version) -> str:
    return f"python{version[0]}.{version[1]}"


async def find(version: Version) -> Interpreter | None:
    """An interpreter of this minor version: the PATH's, else the newest that works in a usual location."""
    name = _name(version)
    if found := await ask(name):
        return found
    for path in await asyncio.to_thread(_usual_locations, name):
        if (found := await ask(path)) and found.minor == version:
            return found
    return None


def _usual_locations(name: str) -> list[str]:
    """Candidates for `name` ("python3.12") outside the PATH, the newest of each location first."""
    home = Path.home()
    data = Path(os.environ.get("XDG_DATA_HOME") or home / ".local/share")
    series = name.removeprefix("python")
    locations = (
        (Path(os.environ.get("PYENV_ROOT") or home / ".pyenv") / "versions", f"{series}.*/bin/{name}"),
        (Path(os.environ.get("UV_PYTHON_INSTALL_DIR") or data / "uv/python"), f"cpython-{series}.*/bin/{name}"),
        (Path("/usr/local/bin"), name),
        (Path("/opt/hostedtoolcache/Python"), f"{series}.*/*/bin/{name}"),
        (Path("/opt"), f"*/bin/{name}"),
        (Path("/opt/python"), f"*/bin/{name}"),
    )
    return [str(path) for folder, pattern in locations for path in sorted(folder.glob(pattern), key=_newest, reverse=True)]


def _newest(path: Path) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", str(path))]


def _is_mountable(interpreter: Interpreter) -> bool:
    """Whether its tree is its own: the code under test can read all of it."""
    prefix, home = Path(interpreter.prefix), Path.home().resolve()
    if prefix.is_relative_to("/usr"):
        return True
    return len(prefix.parts) > 2 and not home.is_relative_to(prefix) and prefix != home / ".local"


async def ask(name: str) -> Interpreter | None:
    """Identify the program `name`, on the PATH or at a path; None if it does not work."""
    if (path := shutil.which(name)) is None:
        return None
    process = await asyncio.create_subprocess_exec(
        path, "-I", "-c", _WHO, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        answer, _ = await asyncio.wait_for(process.communicate(), 10.0)
        found = Interpreter(*json.loads(answer)) if process.returncode == 0 else None
        return found if found is not None and _is_mountable(found) else None
    except (TimeoutError, ValueError):  # a version manager's shim without that version
        return None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
