"""Environments made once and shared by every attempt that needs the same: a virtual environment of downloaded wheels alone.

Shared is only what no repository had a hand in: wheels of the download step, unpacked by the installer in a place that sees
nothing of any repository (a wheel may bring code that runs when its Python starts, so it is made in the sandbox all the same;
whoever gets that environment asked for that very wheel). What is built or is the repository's own goes on top, and is private.

An environment is called by all that it follows from, is made aside, sealed (ours, writable by nobody else, and a digest of
names, modes, owners, sizes and times of change beside it), and only then put on the shelf; one that is not as it was sealed is
made anew. Knows nothing of how a `Maker` runs its commands.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import platform
import stat
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from sandbox.install import shelf
from sandbox.install.python.interpreters import Interpreter
from sandbox.install.python.requirements import Lines
from sandbox.install.shelf import Held
from sandbox.taking import taken

FORM = 1  # raise it when an environment would be made differently from the same recipe
TREE, SEAL, REQUIREMENTS, CONSTRAINTS = "env", "seal", "requirements.txt", "constraints.txt"


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything an environment follows from."""

    interpreter: Interpreter
    installer: tuple[str, ...]  # which one it is, and its options
    lines: Lines
    wheels: tuple[tuple[str, str], ...]  # file name, SHA-256

    @property
    def key(self) -> str:
        made_of = (FORM, platform.machine(), self.interpreter, self.installer, *self._asked(), self.wheels)
        return hashlib.sha256(repr(made_of).encode()).hexdigest()[:32]

    def write(self, folder: Path) -> None:
        """What is asked for, as files that an installer reads."""
        for name, lines in zip((REQUIREMENTS, CONSTRAINTS), self._asked(), strict=True):
            (folder / name).write_text("".join(f"{line}\n" for line in lines))

    def _asked(self) -> tuple[list[str], list[str]]:
        hashes = dict(self.lines.hashes)
        asked = {f"{line} {hashes[line]}" if line in hashes else line for line in self.lines.requirements}
        return sorted(asked), sorted(set(self.lines.constraints))


class Makeable(Protocol):
    """What is made for it is called by its key, which says all that it follows from."""

    @property
    def key(self) -> str: ...

    def write(self, folder: Path) -> None: ...


Maker = Callable[[Path], Awaitable[bool]]
"""Makes an environment out of a folder with the recipe's files, in its empty subfolder `TREE`; False when it cannot."""


async def prepared(
    cache: Path, recipe: Makeable, make: Maker, *, since: float | None = None, lasts: Callable[[], bool] = lambda: True
) -> Held | None:
    """The environment of `recipe`, held until it is put back; None when it cannot be made of wheels alone.

    One made before `since` (seconds since 1970) is only taken where no other can be made. One that was made and does not
    `lasts` is for who asked now, and for nobody after.
    """
    held = await taken(lambda: _kept(cache, recipe.key), shelf.put_back)
    if held is not None and (since is None or held.made >= since):
        return held
    try:
        fresh = await _made(cache, recipe, make, lasts)
    except BaseException:
        if held is not None:
            await asyncio.shield(asyncio.to_thread(shelf.put_back, held))
        raise
    if fresh is not None and held is not None:
        await asyncio.to_thread(shelf.put_back, held)
    return fresh or held


async def _made(cache: Path, recipe: Makeable, make: Maker, lasts: Callable[[], bool]) -> Held | None:
    fresh = await taken(lambda: shelf.begin(cache, recipe.key), shelf.put_back)
    try:
        tree = fresh.folder / TREE
        await asyncio.to_thread(recipe.write, fresh.folder)
        await asyncio.to_thread(tree.mkdir, 0o755)
        if await make(fresh.folder) and await asyncio.to_thread(_seal, fresh.folder):
            if lasts():
                fresh = await asyncio.to_thread(shelf.keep, fresh)
                await asyncio.to_thread(shelf.sweep, cache)
            return fresh
    except BaseException:
        await asyncio.shield(asyncio.to_thread(shelf.put_back, fresh))
        raise
    await asyncio.to_thread(shelf.put_back, fresh)
    return None


def _kept(cache: Path, key: str) -> Held | None:
    held = shelf.newest(cache, key)
    if held is None or _is_as_sealed(held.folder):
        return held
    shelf.put_back(held)
    return None


def _seal(folder: Path) -> bool:
    """Make the tree ours and write down what it is. Whoever made it is dead: nothing changes under our eyes."""
    ours = os.geteuid(), os.getegid()
    try:
        for path, what in _everything(folder / TREE):
            if what.st_uid != ours[0]:
                os.lchown(path, *ours)
            if not stat.S_ISLNK(what.st_mode):
                os.chmod(path, (stat.S_IMODE(what.st_mode) | 0o444) & 0o755)
        (folder / SEAL).touch(0o644)
        (folder / SEAL).write_text(_digest(folder))
    except (ValueError, PermissionError):  # something that no wheel holds, or a folder closed to us: nobody gets it
        return False
    return True


def _is_as_sealed(folder: Path) -> bool:
    try:
        return all(_is_ours(path.lstat()) for path in (folder.parent, folder, folder / SEAL)) and (
            (folder / SEAL).read_text() == _digest(folder)
        )
    except (OSError, ValueError):
        return False


def _is_ours(what: os.stat_result) -> bool:
    return what.st_uid == os.geteuid() and not what.st_mode & 0o022


def _digest(folder: Path) -> str:
    """The time of change cannot be set by anybody: whatever was done to a file after it was sealed shows in it."""
    digest = hashlib.sha256()
    for path, what in _everything(folder / TREE):
        told = (what.st_mode, what.st_uid, what.st_gid, what.st_size, what.st_ctime_ns)
        digest.update(repr((path.removeprefix(str(folder)), *told)).encode(errors="surrogateescape"))
    return digest.hexdigest()


def _everything(tree: Path) -> Iterator[tuple[str, os.stat_result]]:
    """The tree itself and all below it, always in the same order. Raises `ValueError` for what no environment has."""
    waiting = [str(tree)]
    yield str(tree), tree.lstat()
    while waiting:
        with os.scandir(waiting.pop()) as found:
            entries = sorted(found, key=lambda entry: entry.name)
        for entry in entries:
            what = entry.stat(follow_symlinks=False)
            if stat.S_ISDIR(what.st_mode):
                waiting.append(entry.path)
            elif not stat.S_ISREG(what.st_mode) and not stat.S_ISLNK(what.st_mode):
                raise ValueError(f"neither a file, a folder nor a link: {entry.path!r}")
            yield entry.path, what
