"""Folders that are locked by themselves: who finds one unlocked knows that nobody uses it any more."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


def locked(folder: Path, kind: int) -> int | None:
    """A descriptor of the folder, with its lock (`fcntl.LOCK_EX`, `LOCK_SH`).

    None where another's lock is in the way, or the folder is gone, perhaps since it was opened.
    """
    try:
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(lock, kind | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(lock), folder.stat()):
            return lock
    except OSError:
        pass
    os.close(lock)
    return None
