"""Telling GitHub of an attempt's end: claimed as the attempt itself is, so that one worker at a time tells it.

Knows no GitHub. An end whose teller died is claimed anew once his claim has run out.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import timedelta

from app.clock import Clock, elapsed
from app.store.database.database import Database
from app.store.leases.claims import Claimed, NotClaimed, Terms, take
from app.store.leases.heartbeat import Hold, LeaseLost, given_back, kept
from app.store.models import AttemptRow
from app.store.queries import read_attempt


class Telling(Hold):
    """One worker's hold on the end of one attempt; made by `telling`."""

    status = "ended"

    def __init__(self, database: Database, clock: Clock, terms: Terms, claimed: Claimed) -> None:
        super().__init__(database, clock, terms, claimed)
        self._again_in: float | None = None

    def later(self, seconds: float) -> None:
        """It could not be told now, and is to be tried again after so many seconds."""
        self._again_in = seconds

    async def _release(self, error: BaseException | None) -> None:
        async with self._fenced() as (_, row):
            row.lease_owner = row.lease_expires_at = None
            if self._again_in is not None:
                row.due_at = self._clock.now() + timedelta(seconds=self._again_in)
            elif error is None:
                row.told = True
            elif not isinstance(error, asyncio.CancelledError):
                row.due_at = self._clock.now() + timedelta(seconds=self._terms.silence)


@contextlib.asynccontextmanager
async def telling(database: Database, clock: Clock, terms: Terms, attempt_id: str, worker: str) -> AsyncIterator[Telling]:
    """Claim the telling of an attempt's end and keep it for the block. Raises `NotClaimed`, `LeaseLost`.

    A block that leaves in order has told it, unless it said `later`; one that raises is tried again by whichever worker.
    """
    hold = Telling(database, clock, terms, await _claim(database, clock, terms, attempt_id, worker))
    error: BaseException | None = None
    try:
        async with kept(hold):
            yield hold
    except BaseException as raised:  # noqa: BLE001 - raised again below, once the claim is given back
        error = raised
    if not isinstance(error, LeaseLost):
        await given_back(lambda: hold._release(error))
    if error is not None:
        raise error


async def _claim(database: Database, clock: Clock, terms: Terms, attempt_id: str, worker: str) -> Claimed:
    began = elapsed()
    async with database.write() as session:
        row = await session.get(AttemptRow, attempt_id, with_for_update=True)
        now = clock.now()
        if row is None or row.status != "ended" or row.told:
            raise NotClaimed("nothing is to be told of it")
        if row.due_at is not None and row.due_at > now:
            raise NotClaimed(f"its end is not told before {row.due_at:%H:%M:%S} UTC")
        if row.lease_expires_at is not None and row.lease_expires_at > now:
            raise NotClaimed(f"{row.lease_owner} is telling its end")
        take(row, worker, now, terms)
        await session.flush()
        attempt = await read_attempt(session, attempt_id)
        assert attempt is not None
        return Claimed(attempt, row.lease_token, began)
