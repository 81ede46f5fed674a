"""Folders that are locked by themselves: who finds one unlocked knows that nobody uses it any more."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


def locked(folder: Path, kind: int) -> int | None:
    """A descriptor of the folder, with its lock (`fcntl.LOCK_EX`, `LOCK_SH`).

    None where another's lock is in the way, or the folder is gone, perhaps since it was opened. Raises `OSError` where that
    cannot be told: no descriptor is free, or the file system has no locks.
    """
    try:
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    is_ours = False
    try:
        fcntl.flock(lock, kind | fcntl.LOCK_NB)
        is_ours = os.path.samestat(os.fstat(lock), folder.stat())
    except (BlockingIOError, FileNotFoundError):
        pass
    finally:
        if not is_ours:
            os.close(lock)
    return lock if is_ours else None


def abandoned(folder: Path) -> int | None:
    """As `locked`, alone, for who clears away what nobody uses: None also where that cannot be told."""
    try:
        return locked(folder, fcntl.LOCK_EX)
    except OSError:
        return None
