"""A cache of folders, for downloads and environments: one immutable folder per entry.

A folder is named KEY-NANOSECONDS-TOKEN (`new-…` while it is filled) and locked while in use; pruning removes only unlocked
ones. Everything here blocks.
"""

from __future__ import annotations

import fcntl
import os
import time
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex

from sandbox.host import disk
from sandbox.host.folder_locks import is_left_over, lock_if_abandoned, try_lock

BOUND = 5 * 1024**3  # bytes of all entries together; an entry in use is never removed
_NEW = "new-"


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """A locked folder; `made` is in seconds since 1970."""

    folder: Path
    made: float
    lock: int


def newest(cache: Path, key: str) -> CacheEntry | None:
    """The newest entry of `key`, locked, or None. Raises `OSError` if it cannot be locked."""
    for folder in sorted(cache.glob(f"{key}-*"), reverse=True):
        if entry := _hold(folder):
            return entry
    return None


def create(cache: Path, key: str) -> CacheEntry:
    """An empty folder for a new entry; `release` removes it unless it was committed. Raises `OSError`."""
    cache.mkdir(0o755, parents=True, exist_ok=True)
    while True:
        folder = cache / f"{_NEW}{key}-{time.time_ns():020d}-{token_hex(6)}"
        disk.make_folder(folder, 0o755)
        if (entry := _hold(folder)) is not None:  # otherwise another worker has just removed it
            return entry


def commit(entry: CacheEntry) -> CacheEntry:
    """Make the folder the newest entry of its key."""
    folder = entry.folder.with_name(entry.folder.name.removeprefix(_NEW))
    entry.folder.rename(folder)
    return CacheEntry(folder, entry.made, entry.lock)


def keep(entry: CacheEntry, bound: int | None = None) -> CacheEntry:
    """`commit` the entry and `prune` its cache. An entry larger than `bound` alone stays uncommitted: it is used once."""
    if disk.size(entry.folder, _or_default(bound)) > _or_default(bound):
        return entry
    entry = commit(entry)
    prune(entry.folder.parent, bound)
    return entry


def release(entry: CacheEntry | None) -> None:
    """Unlock the entry, and remove it if it was not committed. None is ignored."""
    if entry is None:
        return
    try:
        if entry.folder.name.startswith(_NEW):
            disk.remove(entry.folder)
    finally:
        os.close(entry.lock)


def remove_unfinished(cache: Path) -> None:
    """Remove the unfinished folders of dead workers."""
    for folder in cache.glob(f"{_NEW}*"):
        _remove_unless_used(folder)


def unfinished(cache: Path) -> list[Path]:
    """The unfinished folders that no live worker uses."""
    return [folder for folder in sorted(cache.glob(f"{_NEW}*")) if is_left_over(folder)]


def prune(cache: Path, bound: int | None = None) -> None:
    """Remove unfinished folders of dead workers, superseded entries, and the oldest entries above `bound` bytes."""
    remove_unfinished(cache)
    most, total = _or_default(bound), 0
    seen: set[str] = set()
    kept = [folder for folder in cache.iterdir() if not folder.name.startswith(_NEW)]
    for folder in sorted(kept, key=_made, reverse=True):
        key = folder.name.rpartition("-")[0].rpartition("-")[0]
        is_left = key in seen
        seen.add(key)
        size = 0 if is_left else disk.size(folder, most)
        is_left = is_left or size > most
        total += 0 if is_left else size
        if is_left or total > most:
            _remove_unless_used(folder)


def _or_default(bound: int | None) -> int:
    return BOUND if bound is None else bound


def _made(folder: Path) -> float:
    """Creation time from the name, in seconds since 1970; 0 for a name with a different form."""
    when = folder.name.rpartition("-")[0].rpartition("-")[2]
    return int(when) / 1e9 if when.isdecimal() else 0.0


def _hold(folder: Path) -> CacheEntry | None:
    """Lock a folder; None if it is gone or being removed."""
    lock = try_lock(folder, fcntl.LOCK_SH)
    return None if lock is None else CacheEntry(folder, _made(folder), lock)


def _remove_unless_used(folder: Path) -> None:
    if (lock := lock_if_abandoned(folder)) is not None:
        try:
            disk.remove(folder)
        finally:
            os.close(lock)
