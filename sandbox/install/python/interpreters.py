"""Which Pythons this machine has, and which one runs a repository.

Looks at the worker's own interpreter, at `python3.X` on its PATH, where people have others (pyenv's versions, uv's, `/opt`,
`/usr/local`, a runner's tool cache) and at those of `managed`; starts them isolated (`-I`) to ask who they are. The code will
see the whole tree of the one that runs it, so one whose tree is a home, or holds one, is passed by.
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
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from sandbox.install.python.managed import Managed

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


def own() -> Interpreter:
    """The one that runs this worker, without its virtual environment."""
    path = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
    return Interpreter(path, os.path.realpath(sys.base_prefix), ".".join(map(str, sys.version_info[:3])))


async def choose(wanted: str | None, managed: Managed | None = None) -> Interpreter:
    """The interpreter nearest to `wanted`: the PATH's, then one that is `managed`, downloaded if need be, else a neighbour's.

    `wanted` is "3.12", "3.12.4", "3.13t", ">=3.12", "pypy3.10" …; its first minor version counts, as CPython.
    """
    mine = own()
    wish = _minor(wanted) if wanted else None
    if wish is None or wish == mine.minor:
        return mine
    if (found := await here(wish)) or (managed is None and wish not in SUPPORTED):
        return found or mine
    others = {} if managed is None else await managed.installed()
    if managed is not None and wish in SUPPORTED and (found := others.get(wish) or await managed.fetched(wish)):
        return found
    for version in sorted(SUPPORTED, key=lambda version: (abs(version[1] - wish[1]), version)):
        if version == mine.minor:
            return mine
        if found := await here(version) or others.get(version):
            return found
    return mine


def runs_as(wanted: str | None, version: str) -> bool:
    """Whether the Python of this `version` is what `wanted` says, so that nobody has to be told of another one."""
    if wanted is None:
        return True
    exact = re.fullmatch(r"\s*v?(3\.\d+(?:\.\d+)?)(?:\.x|-dev)?\s*", wanted)
    if exact:
        return f"{version}.".startswith(f"{exact[1]}.")
    return _minor(wanted) is None  # "3.x", "latest": any will do


def _minor(wanted: str) -> Version | None:
    found = re.search(r"(?<![\d.])3\.(\d{1,2})(?!\d)", wanted)
    return (3, int(found[1])) if found else None


def _name(version: Version) -> str:
    return f"python{version[0]}.{version[1]}"


async def here(version: Version) -> Interpreter | None:
    """One of this minor version that the machine has: the PATH's, else the newest that works in one of the usual places."""
    name = _name(version)
    if found := await ask(name):
        return found
    for path in await asyncio.to_thread(_usual, name):
        if (found := await ask(path)) and found.minor == version:
            return found
    return None


def _usual(name: str) -> list[str]:
    """Where `name` ("python3.12") may be beside the PATH, the newest of each place first."""
    home = Path.home()
    data = Path(os.environ.get("XDG_DATA_HOME") or home / ".local/share")
    series = name.removeprefix("python")
    places = (
        (Path(os.environ.get("PYENV_ROOT") or home / ".pyenv") / "versions", f"{series}.*/bin/{name}"),
        (Path(os.environ.get("UV_PYTHON_INSTALL_DIR") or data / "uv/python"), f"cpython-{series}.*/bin/{name}"),
        (Path("/usr/local/bin"), name),
        (Path("/opt/hostedtoolcache/Python"), f"{series}.*/*/bin/{name}"),
        (Path("/opt"), f"*/bin/{name}"),
        (Path("/opt/python"), f"*/bin/{name}"),
    )
    return [str(path) for folder, pattern in places for path in sorted(folder.glob(pattern), key=_newest, reverse=True)]


def _newest(path: Path) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", str(path))]


def _may_be_shown(interpreter: Interpreter) -> bool:
    """Whether its tree is its own: the code that it runs will read all of it."""
    prefix, home = Path(interpreter.prefix), Path.home().resolve()
    if prefix.is_relative_to("/usr"):
        return True
    return len(prefix.parts) > 2 and not home.is_relative_to(prefix) and prefix != home / ".local"


async def ask(name: str) -> Interpreter | None:
    """Who a program on the PATH, or at a path, is; None where there is none that works."""
    if (path := shutil.which(name)) is None:
        return None
    process = await asyncio.create_subprocess_exec(
        path, "-I", "-c", _WHO, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        answer, _ = await asyncio.wait_for(process.communicate(), 10.0)
        found = Interpreter(*json.loads(answer)) if process.returncode == 0 else None
        return found if found is not None and _may_be_shown(found) else None
    except (TimeoutError, ValueError):  # a version manager's stand-in that has no such version behind it
        return None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
