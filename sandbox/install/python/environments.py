"""Virtual environments made only from downloaded wheels, created once and shared by attempts with the same requirements.

No repository influences a shared environment: the installer unpacks wheels of the download step in a sandbox that sees no
repository. (A wheel may contain code that runs when Python starts; only attempts that requested the wheel share it.) Whatever
is built or belongs to the repository is installed on top and stays private.

An environment's key covers everything that determines its content. It is created in its own folder and then sealed: the worker
owns it, nobody else can write to it, and a digest of names, modes, owners, sizes and change times is stored next to it. An
entry that no longer matches its seal is created again.
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

from sandbox.host import disk
from sandbox.host.folder_locks import acquire
from sandbox.install import folder_cache
from sandbox.install.folder_cache import CacheEntry
from sandbox.install.python.interpreters import Interpreter
from sandbox.install.python.requirements import RequirementLines

FORM = 1  # increment when the same recipe would give a different environment
TREE, SEAL, REQUIREMENTS, CONSTRAINTS = "env", "seal", "requirements.txt", "constraints.txt"


@dataclass(frozen=True, slots=True)
class EnvironmentRecipe:
    """Everything that determines an environment."""

    interpreter: Interpreter
    installer: tuple[str, ...]  # which one it is, and its options
    lines: RequirementLines
    wheels: tuple[tuple[str, str], ...]  # file name, SHA-256

    @property
    def key(self) -> str:
        made_of = (FORM, platform.machine(), self.interpreter, self.installer, *self._asked(), self.wheels)
        return hashlib.sha256(repr(made_of).encode()).hexdigest()[:32]

    def write(self, folder: Path) -> None:
        """Write the requirements as files for an installer."""
        for name, lines in zip((REQUIREMENTS, CONSTRAINTS), self._asked(), strict=True):
            (folder / name).write_text("".join(f"{line}\n" for line in lines))

    def _asked(self) -> tuple[list[str], list[str]]:
        hashes = dict(self.lines.hashes)
        asked = {f"{line} {hashes[line]}" if line in hashes else line for line in self.lines.requirements}
        return sorted(asked), sorted(set(self.lines.constraints))


class Recipe(Protocol):
    """Something to create, identified by a key that covers everything that determines it."""

    @property
    def key(self) -> str: ...

    def write(self, folder: Path) -> None: ...


Maker = Callable[[Path], Awaitable[bool]]
"""Creates an environment from a folder with the recipe's files, in its empty subfolder `TREE`; False on failure."""


async def prepared(
    cache: Path,
    recipe: Recipe,
    make: Maker,
    *,
    bound: int | None = None,
    since: float | None = None,
    lasts: Callable[[], bool] = lambda: True,
) -> CacheEntry | None:
    """The environment of `recipe`, locked until released; None if it cannot be created from wheels only.

    An environment made before `since` (seconds since 1970) is used only if no new one can be created. A new one is used once
    and not cached if `lasts` returns false. `bound`: bytes of the cache, as in `folder_cache.keep`.
    """
    cached = await acquire(lambda: _find_sealed(cache, recipe.key), folder_cache.release)
    if cached is not None and (since is None or cached.made >= since):
        return cached
    try:
        fresh = await _create(cache, recipe, make, lasts, bound)
    except BaseException:  # also a cancellation: the lock of the cached environment must go
        if cached is not None:
            await asyncio.shield(asyncio.to_thread(folder_cache.release, cached))
        raise
    if fresh is not None and cached is not None:
        await asyncio.to_thread(folder_cache.release, cached)
    return fresh or cached


async def _create(cache: Path, recipe: Recipe, make: Maker, lasts: Callable[[], bool], bound: int | None) -> CacheEntry | None:
    fresh = await acquire(lambda: folder_cache.create(cache, recipe.key), folder_cache.release)
    try:
        tree = fresh.folder / TREE
        await asyncio.to_thread(recipe.write, fresh.folder)
        await asyncio.to_thread(disk.make_readable, fresh.folder)
        await asyncio.to_thread(disk.make_folder, tree, 0o755)
        if await make(fresh.folder) and await asyncio.to_thread(_seal, fresh.folder):
            if lasts():
                fresh = await asyncio.to_thread(folder_cache.keep, fresh, bound)
            return fresh
    except BaseException:  # also a cancellation: an unlocked folder can be pruned
        await asyncio.shield(asyncio.to_thread(folder_cache.release, fresh))
        raise
    await asyncio.to_thread(folder_cache.release, fresh)
    return None


def _find_sealed(cache: Path, key: str) -> CacheEntry | None:
    cached = folder_cache.newest(cache, key)
    if cached is None or _is_as_sealed(cached.folder):
        return cached
    folder_cache.release(cached)
    return None


def _seal(folder: Path) -> bool:
    """Take ownership of the tree and record its digest. The process that made it has ended, so nothing changes meanwhile."""
    ours = os.geteuid(), os.getegid()
    try:
        for path, what in _files(folder / TREE):
            if what.st_uid != ours[0]:
                os.lchown(path, *ours)
            if not stat.S_ISLNK(what.st_mode):
                os.chmod(path, (stat.S_IMODE(what.st_mode) | 0o444) & 0o755)
        (folder / SEAL).touch(0o644)
        (folder / SEAL).write_text(_digest(folder))
    except (ValueError, PermissionError):  # what no wheel contains, or a folder that we may not read
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
    """The tree's digest. Nobody can set a change time, so the digest reveals every later change to a file."""
    digest = hashlib.sha256()
    for path, what in _files(folder / TREE):
        attributes = (what.st_mode, what.st_uid, what.st_gid, what.st_size, what.st_ctime_ns)
        digest.update(repr((path.removeprefix(str(folder)), *attributes)).encode(errors="surrogateescape"))
    return digest.hexdigest()


def _files(tree: Path) -> Iterator[tuple[str, os.stat_result]]:
    """As `disk.walk`. Also raises `ValueError` for anything but files, folders and links."""
    for path, what in disk.walk(tree):
        if not (stat.S_ISDIR(what.st_mode) or stat.S_ISREG(what.st_mode) or stat.S_ISLNK(what.st_mode)):
            raise ValueError(f"neither a file, a folder nor a link: {path!r}")
        yield path, what
