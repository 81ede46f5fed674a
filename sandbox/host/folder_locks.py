"""Locks on folders: an unlocked folder is no longer in use."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


def try_lock(folder: Path, kind: int) -> int | None:
    """Lock the folder (`fcntl.LOCK_EX`, `LOCK_SH`); returns the descriptor that holds the lock.

    None if another lock conflicts or the folder is gone. Raises `OSError` if that is unknown: no free descriptor, or a file
    system without locks.
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


def lock_if_abandoned(folder: Path) -> int | None:
    """Lock a folder that is no longer used, to remove it; None if it is used, gone, or its state is unknown."""
    try:
        return try_lock(folder, fcntl.LOCK_EX)
    except OSError:
        return None
