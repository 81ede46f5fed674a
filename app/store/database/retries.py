"""Outlasting a database that is away for a while: restarted, locked, full, or refusing connections. Knows no table."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 1.0  # seconds
_PASSING_STATES = ("08", "40", "53", "55", "57", "58")
"""Classes of SQLSTATE that say nothing against what was asked: connection lost, deadlock, out of resources, not in the needed
state (a lock not to be had), stopped by an operator or a deadline, trouble of the system."""
_log = structlog.get_logger(__name__)
T = TypeVar("T")


def is_passing(error: BaseException) -> bool:
    """May the very same work succeed a little later?"""
    if isinstance(error, OSError | OperationalError | InterfaceError | PoolTimeout):
        return True
    if isinstance(error, DBAPIError):
        state = getattr(error.orig, "sqlstate", None) or ""
        return error.connection_invalidated or state.startswith(_PASSING_STATES)
    return False


async def patiently(
    work: Callable[[], Awaitable[T]],
    seconds: float,
    *,
    passing: Callable[[BaseException], bool] = is_passing,
) -> T:
    """Do the work, again and again while the database is away, for so long; then raises what it raised last.

    The answer to a commit may be lost with the connection, so the work may have been done when it is done again: it must find
    that, or do no harm.
    """
    deadline = time.monotonic() + seconds
    pause = _FIRST_PAUSE
    while True:
        try:
            return await work()
        except Exception as error:
            if not passing(error) or time.monotonic() + pause > deadline:
                raise
            _log.warning("the database is away; trying again", error=type(error).__name__, again_in=pause)
        await asyncio.sleep(pause)
        pause = min(pause * 2, _LONGEST_PAUSE)
