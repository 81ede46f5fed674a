"""Finds compilers and runtimes of other languages outside /usr, such as rustup's in a home folder.

Every sandbox mounts /usr anyway. Hostile code can read whatever is mounted, so a folder is mounted only if it belongs to one
toolchain, never if it contains other files too (a home, its `.local`, `/opt`). Runs the programs; downloads nothing.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sandbox.host import launch

SECONDS = 20.0
_ASKED = (("rustc", "--print", "sysroot"), ("go", "env", "GOROOT"))
_MARKS = ("lib/node_modules/npm", "lib/rustlib", "pkg/tool")  # exist only in Node's, Rust's and Go's folders
_SHARED = frozenset(("doc", "info", "licenses", "locale", "man", "systemtap", "zsh"))  # what a toolchain has in its `share`


@dataclass(frozen=True, slots=True)
class Toolchain:
    """`root` is the folder it needs, or a single program; `programs` the folder of its commands."""

    root: Path
    programs: str


async def find(private: Sequence[Path]) -> tuple[Toolchain, ...]:
    """Each toolchain once. `private` are the worker's folders, which no mounted folder may contain."""
    roots = await asyncio.gather(*(_ask(argv) for argv in _ASKED))
    return await asyncio.to_thread(_usable, roots, private)


def _usable(roots: Sequence[str], private: Sequence[Path]) -> tuple[Toolchain, ...]:
    kept = [path.resolve() for path in (Path.home(), *private)]
    trees = {tree for name in roots if name and _is_toolchain(tree := Path(name).resolve(), kept)}
    alone: set[Path] = set()
    if (node := shutil.which("node")) is not None:
        program = Path(node).resolve()
        if _is_toolchain(tree := program.parent.parent, kept):
            trees.add(tree)
        elif _is_hidden(program) and program.is_file():
            alone.add(program)
    return (
        *(Toolchain(tree, f"{tree}/bin") for tree in sorted(trees) if _is_hidden(tree)),
        *(Toolchain(program, str(program.parent)) for program in sorted(alone)),
    )


def _is_hidden(path: Path) -> bool:
    return not path.is_relative_to("/usr")


def _is_toolchain(tree: Path, kept: Sequence[Path]) -> bool:
    """Whether `tree` belongs to one toolchain and contains nothing else."""
    if len(tree.parts) < 3 or any(path.is_relative_to(tree) for path in kept):
        return False
    if not (tree / "bin").is_dir() or not any((tree / mark).is_dir() for mark in _MARKS):
        return False
    try:
        hidden = any(name.startswith(".") for name in os.listdir(tree))
        share = tree / "share"
        return not hidden and (not share.is_dir() or _SHARED.issuperset(os.listdir(share)))
    except OSError:
        return False


async def _ask(argv: tuple[str, ...]) -> str:
    if (program := shutil.which(argv[0])) is None:
        return ""
    return await launch.printed((program, *argv[1:]), os.environ, SECONDS) or ""
