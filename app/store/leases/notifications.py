"""The lease on reporting an attempt's outcome to GitHub, so that one worker at a time reports it.

If that worker dies, another takes over when its lease expires. Knows no GitHub.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import timedelta

from app.clock import Clock, elapsed
from app.store.database.database import Database
from app.store.leases.claims import Claimed, NotClaimed, Terms, take
from app.store.leases.heartbeat import LeaseLost, RowLease, keep_alive, release_in_time
from app.store.models import AttemptRow
from app.store.queries import read_attempt


class NotificationLease(RowLease):
    """One worker's lease on reporting one outcome; opened by `open_notification`."""

    status = "ended"

    def __init__(self, database: Database, clock: Clock, terms: Terms, claimed: Claimed) -> None:
        super().__init__(database, clock, terms, claimed)
        self._retry_in: float | None = None

    def retry_later(self, seconds: float) -> None:
        """It could not be reported now; try again after so many seconds."""
        self._retry_in = seconds

    async def _release(self, error: BaseException | None) -> None:
        async with self._fenced() as (_, row):
            row.lease_owner = row.lease_expires_at = None
            if self._retry_in is not None:
                row.due_at = self._clock.now() + timedelta(seconds=self._retry_in)
            elif error is None:
                row.told = True
            elif not isinstance(error, asyncio.CancelledError):
                row.due_at = self._clock.now() + timedelta(seconds=self._terms.silence)


@contextlib.asynccontextmanager
async def open_notification(
    database: Database, clock: Clock, terms: Terms, attempt_id: str, worker: str
) -> AsyncIterator[NotificationLease]:
    """Claim the report of an attempt's outcome for the block. Raises `NotClaimed`, `LeaseLost`.

    A block that returns has reported it, unless it called `retry_later`; after one that raises, any worker tries again.
    """
    lease = NotificationLease(database, clock, terms, await _claim(database, clock, terms, attempt_id, worker))
    error: BaseException | None = None
    try:
        async with keep_alive(lease):
            yield lease
    except BaseException as raised:  # noqa: BLE001 - anything; raised again below, once the lease is released
        error = raised
    if not isinstance(error, LeaseLost):
        await release_in_time(lambda: lease._release(error))
    if error is not None:
        raise error


async def _claim(database: Database, clock: Clock, terms: Terms, attempt_id: str, worker: str) -> Claimed:
    began = elapsed()
    async with database.write() as session:
        row = await session.get(AttemptRow, attempt_id, with_for_update=True)
        now = clock.now()
        if row is None or row.status != "ended" or row.told:
            raise NotClaimed("there is nothing to report")
        if row.due_at is not None and row.due_at > now:
            raise NotClaimed(f"the report is postponed until {row.due_at:%H:%M:%S} UTC")
        if row.lease_expires_at is not None and row.lease_expires_at > now:
            raise NotClaimed(f"{row.lease_owner} is reporting its outcome")
        take(row, worker, now, terms)
        await session.flush()
        attempt = await read_attempt(session, attempt_id)
        assert attempt is not None
        return Claimed(attempt, row.lease_token, began)
