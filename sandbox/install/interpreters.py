"""Which Pythons this machine has, and which one runs a repository.

Only looks at the worker's own interpreter and at `python3.X` on its PATH; starts them isolated (`-I`) to ask who they are.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from dataclasses import dataclass

SUPPORTED = tuple((3, minor) for minor in range(8, 16))
_WHO = """
import json, os, sys
version = ".".join(map(str, sys.version_info[:3]))
print(json.dumps([os.path.realpath(sys.executable), sys.base_prefix, version]))
"""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """`path` is the program, `prefix` the tree that it needs to run, `version` is "3.11.7"."""

    path: str
    prefix: str
    version: str


def own() -> Interpreter:
    """The one that runs this worker, without its virtual environment."""
    path = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
    return Interpreter(path, os.path.realpath(sys.base_prefix), ".".join(map(str, sys.version_info[:3])))


async def choose(wanted: str | None) -> Interpreter:
    """The interpreter nearest to `wanted` ("3.12", "3.12.4"; anything unreadable counts as no wish)."""
    mine = own()
    wish = _minor(wanted) if wanted else None
    if wish is None or wish == sys.version_info[:2]:
        return mine
    for version in sorted(SUPPORTED, key=lambda version: (abs(version[1] - wish[1]), version)):
        if version == sys.version_info[:2]:
            return mine
        if found := await _ask(f"python{version[0]}.{version[1]}"):
            return found
    return mine


def _minor(wanted: str) -> tuple[int, int] | None:
    parts = wanted.strip().split(".")
    if len(parts) < 2 or not all(part.isdecimal() for part in parts[:2]):
        return None
    return int(parts[0]), int(parts[1])


async def _ask(name: str) -> Interpreter | None:
    if (path := shutil.which(name)) is None:
        return None
    process = await asyncio.create_subprocess_exec(
        path, "-I", "-c", _WHO, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        answer, _ = await asyncio.wait_for(process.communicate(), 10.0)
        return Interpreter(*json.loads(answer)) if process.returncode == 0 else None
    except (TimeoutError, ValueError):  # a version manager's stand-in that has no such version behind it
        return None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
