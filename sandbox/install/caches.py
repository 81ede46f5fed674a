"""What the caches of packages contain, for people, and clearing them. Everything here blocks."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from sandbox.host import disk
from sandbox.host.folder_locks import lock_if_abandoned
from sandbox.install.python.interpreters import pythons_in


@dataclass(frozen=True, slots=True)
class CacheState:
    """One cache: its entries, their bytes, and when the oldest and the newest were made (seconds since 1970)."""

    name: str
    path: Path
    entries: int
    size: int
    oldest: float | None
    newest: float | None


@dataclass(frozen=True, slots=True)
class Cleared:
    """How many entries were removed, with their bytes; how many are in use; which could not be removed."""

    removed: int
    size: int
    in_use: int
    left: tuple[Path, ...]


def _folders(cache: Path) -> list[Path]:
    return [path for path in cache.iterdir() if path.is_dir() and not path.is_symlink()]


CACHES: Mapping[str, Callable[[Path], list[Path]]] = {
    "wheels": _folders,
    "environments": _folders,
    "modules": _folders,
    "crates": _folders,
    "go-modules": _folders,
    "e2b": _folders,
    "pythons": pythons_in,
}
"""Name, which is that of the folder, → its entries."""


def states(packages: Path) -> list[CacheState]:
    """The caches that exist in `packages`, the folder of a `PackageStore`."""
    return [_state(name, packages / name) for name in CACHES if (packages / name).is_dir()]


def _state(name: str, cache: Path) -> CacheState:
    entries = CACHES[name](cache)
    made = []
    for entry in entries:
        try:
            made.append(entry.lstat().st_mtime)
        except OSError:  # another process has just removed it
            continue
    size = sum(map(_size, entries))
    return CacheState(name, cache, len(made), size, min(made, default=None), max(made, default=None))


def _size(entry: Path) -> int:
    """Bytes; 0 for a tree that cannot be read."""
    size = disk.size(entry, sys.maxsize)
    return size if size <= sys.maxsize else 0


def clear(packages: Path, name: str) -> Cleared:
    """Remove the entries of one cache that no process uses."""
    cache = packages / name
    removed, size, in_use = 0, 0, 0
    left: list[Path] = []
    for entry in _folders(cache) if cache.is_dir() else ():  # also unfinished ones
        if (lock := lock_if_abandoned(entry)) is None:
            in_use += entry.is_dir()
            continue
        try:
            entry_size = _size(entry)
            if disk.remove(entry):
                removed, size = removed + 1, size + entry_size
            else:
                left.append(entry)
        finally:
            os.close(lock)
    return Cleared(removed, size, in_use, tuple(left))
