"""Compilers and runtimes of other languages that this machine has outside of /usr, such as rustup's in somebody's home.

What lies in /usr every sandbox shows anyway. Asks the programs themselves; downloads nothing.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sandbox import launch

SECONDS = 20.0
_ASKED = (("rustc", "--print", "sysroot"), ("go", "env", "GOROOT"))


@dataclass(frozen=True, slots=True)
class Toolchain:
    """`tree` is what it needs to run, `programs` the folder of its commands in it."""

    tree: Path
    programs: str


async def found() -> tuple[Toolchain, ...]:
    """In no particular order, each once."""
    told = await asyncio.gather(*(_ask(argv) for argv in _ASKED))
    return await asyncio.to_thread(_usable, told)


def _usable(told: Sequence[str]) -> tuple[Toolchain, ...]:
    node = shutil.which("node")
    named = [*filter(None, told), *([] if node is None else [str(Path(node).resolve().parent.parent)])]
    trees = {tree for name in named if not (tree := Path(name).resolve()).is_relative_to("/usr") and len(tree.parts) > 2}
    return tuple(Toolchain(tree, f"{tree}/bin") for tree in sorted(trees) if (tree / "bin").is_dir())


async def _ask(argv: tuple[str, ...]) -> str:
    if (program := shutil.which(argv[0])) is None:
        return ""
    ended = await launch.run(launch.Launch((program, *argv[1:]), os.environ, SECONDS, cwd="/"))
    return ended.stdout.decode(errors="replace").strip() if ended.returncode == 0 else ""
