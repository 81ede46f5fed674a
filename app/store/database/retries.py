"""Retries while a database is unavailable: restarting, locked, full, or refusing connections. Knows no table."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 1.0  # seconds
_TRANSIENT_STATES = ("08", "40", "53", "55", "57", "58")
"""Transient classes of SQLSTATE: connection lost, deadlock, insufficient resources, object not in prerequisite state, operator
intervention, system error."""
_log = structlog.get_logger(__name__)
T = TypeVar("T")


def is_transient(error: BaseException) -> bool:
    """Whether the same work may succeed a little later."""
    if isinstance(error, OSError | OperationalError | InterfaceError | PoolTimeout):
        return True
    if isinstance(error, DBAPIError):
        state = getattr(error.orig, "sqlstate", None) or ""
        return error.connection_invalidated or state.startswith(_TRANSIENT_STATES)
    return False


async def retried(
    work: Callable[[], Awaitable[T]],
    seconds: float,
    *,
    is_transient: Callable[[BaseException], bool] = is_transient,
) -> T:
    """Do the work. Repeat it for up to `seconds` while the database is unavailable, then raise the last error.

    The reply to a commit may be lost with the connection, so repeated work may already be done: it must be idempotent.
    """
    deadline = time.monotonic() + seconds
    pause = _FIRST_PAUSE
    while True:
        try:
            return await work()
        except Exception as error:  # `is_transient` decides; any other error is raised again
            if not is_transient(error) or time.monotonic() + pause > deadline:
                raise
            _log.warning("database unavailable; retrying", error=type(error).__name__, again_in=pause)
        await asyncio.sleep(pause)
        pause = min(pause * 2, _LONGEST_PAUSE)
