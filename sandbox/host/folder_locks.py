"""Locks on folders: an unlocked folder is no longer in use. `acquire` leaks nothing if its caller is cancelled."""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar


def try_lock(folder: Path, kind: int) -> int | None:
    """Lock the folder (`fcntl.LOCK_EX`, `LOCK_SH`); returns the descriptor that holds the lock.

    None if another lock conflicts or the folder is gone. Raises `OSError` if this cannot be determined: there is no free
    descriptor, or the file system has no locks.
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
    """Lock a folder that is no longer in use, in order to remove it; None if it is in use or gone, or if that is unknown."""
    try:
        return try_lock(folder, fcntl.LOCK_EX)
    except OSError:
        return None


def is_in_use(folder: Path) -> bool:
    """Whether a live worker has locked the folder. Blocks."""
    if (lock := lock_if_abandoned(folder)) is not None:
        os.close(lock)
        return False
    return folder.is_dir()


def is_left_over(folder: Path) -> bool:
    """Whether no live worker has locked the folder; one that cannot be opened, such as another user's, counts. Blocks."""
    try:
        lock = try_lock(folder, fcntl.LOCK_EX)
    except OSError as error:
        return isinstance(error, PermissionError)
    if lock is not None:
        os.close(lock)
    return lock is not None


T = TypeVar("T")


async def acquire(take: Callable[[], T], give_back: Callable[[T], object]) -> T:
    """The result of `take`, run in a thread. If the caller is cancelled meanwhile, `give_back` gets the result."""
    taking = asyncio.ensure_future(asyncio.to_thread(take))
    try:
        return await asyncio.shield(taking)
    except asyncio.CancelledError:
        await asyncio.shield(asyncio.ensure_future(_undo(taking, give_back)))
        raise


async def _undo(taking: asyncio.Future[T], give_back: Callable[[T], object]) -> None:
    with suppress(Exception):  # `take` may raise anything; the caller must see the cancellation instead
        await asyncio.to_thread(give_back, await taking)
