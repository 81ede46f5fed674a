"""Holding an attempt's row that was claimed: heartbeat, fence, and what to do when the hold is lost.

A claim raises the row's lease token, and every write of a hold is made under "the token is still mine", so a worker that slept
through its hold can change nothing. Knows not what the attempt is held for: to work on it (`leases`), to tell its end
(`tellings`).
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from typing import ClassVar, TypeVar

from sqlalchemy import update
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncSession

from app.clock import Clock, elapsed
from app.store.database.database import Database
from app.store.database.retries import patiently
from app.store.leases.claims import Claimed, Terms
from app.store.models import AttemptRow
from app.store.values import Status

_BEATS_PER_LEASE = 6
_BEAT_SECONDS = 5.0  # that a late heartbeat gets at least: a process that was starved still has what nobody else took
_RELEASE_SECONDS = 10.0
T = TypeVar("T")


class LeaseLost(Exception):
    """Another worker may have the attempt: nothing may be written any more."""


class Hold:
    """One worker's hold on one attempt in one status. Every method raises `LeaseLost` when the hold is gone."""

    status: ClassVar[Status]

    def __init__(self, database: Database, clock: Clock, terms: Terms, claimed: Claimed) -> None:
        self.attempt, self._token, self._beaten = claimed
        self.over = False
        self._ending = False
        self._database = database
        self._clock = clock
        self._terms = terms

    def check(self) -> None:
        """Raises `LeaseLost` when the lease may have run out, as far as this process knows: what it then did elsewhere, another
        worker might be doing too. A process that slept knows that before it hears from the database.
        """
        if elapsed() > self._beaten + self._terms.silence:
            raise LeaseLost(f"the lease on attempt {self.attempt.id} has not been prolonged for {self._terms.silence:g} s")

    @contextlib.asynccontextmanager
    async def _fenced(self) -> AsyncIterator[tuple[AsyncSession, AttemptRow]]:
        """A transaction that holds the attempt's row. Raises `LeaseLost` when it is not ours any more."""
        async with self._database.write() as session:
            ours = (AttemptRow.id == self.attempt.id, AttemptRow.lease_token == self._token, AttemptRow.status == self.status)
            # An update first: it takes the row's lock on every database.
            held = await session.execute(
                update(AttemptRow).where(*ours).values(lease_token=self._token).returning(AttemptRow.id)
            )
            if held.first() is None:
                raise LeaseLost(f"attempt {self.attempt.id} is no longer ours")
            yield session, await session.get_one(AttemptRow, self.attempt.id)

    def _stopped(self, row: AttemptRow) -> Exception | None:
        """Why the work shall stop, when that was asked for."""
        return None

    async def _beat(self) -> Exception | None:
        """Prolong the lease; answers why the work shall stop when that was asked for."""
        async with self._fenced() as (_, row):
            row.heartbeat_at = self._clock.now()
            row.lease_expires_at = row.heartbeat_at + timedelta(seconds=self._terms.silence)
            return self._stopped(row)

    async def _keep(self, body: asyncio.Task[object]) -> Exception:
        """Beat until the hold ends; then cancel the body and answer why.

        A database that is away is waited for as long as the lease lasts.
        """
        began = time.monotonic()
        why: Exception | None = None
        while why is None:
            await asyncio.sleep(self._terms.silence / _BEATS_PER_LEASE)
            if time.monotonic() - began > self._terms.longest:
                why = TimeoutError(f"the try took more than {self._terms.longest:g} s")
                break
            now = elapsed()
            try:
                async with asyncio.timeout(max(_BEAT_SECONDS, self._beaten + self._terms.silence - now)):
                    why = await self._beat()
                self._beaten = now
            except LeaseLost as lost:
                why = None if self._ending or self.over else lost
            except (SQLAlchemyError, OSError) as error:
                if elapsed() > self._beaten + self._terms.silence:
                    why = LeaseLost(f"the database has been away for {self._terms.silence:g} s: {error}")
            except Exception as error:  # noqa: BLE001 - without heartbeats nobody may work on: the body gets it
                why = error
        body.cancel()
        return why


@contextlib.asynccontextmanager
async def kept(hold: Hold) -> AsyncIterator[None]:
    """Keep the hold alive for the block; when it cannot be, the block is cancelled and the reason is raised."""
    body = asyncio.current_task()
    assert body is not None
    cancelling = body.cancelling()
    keeper = asyncio.create_task(hold._keep(body), name=f"lease of {hold.attempt.id}")
    error: BaseException | None = None
    try:
        yield
        await asyncio.sleep(0)  # a cancellation that the block did not live to see arrives here
    except BaseException as raised:  # noqa: BLE001 - raised again below
        error = raised
    if keeper.done():
        if body.uncancel() <= cancelling and isinstance(error, asyncio.CancelledError):
            error = keeper.result()
    else:
        keeper.cancel()
        await asyncio.wait({keeper})
    if error is not None:
        raise error


async def given_back(release: Callable[[], Awaitable[T]]) -> T | None:
    """What a release answers, also when its task is cancelled; None when it cannot be made: the hold runs out by itself."""
    releasing = asyncio.create_task(patiently(release, _RELEASE_SECONDS))
    with contextlib.suppress(LeaseLost, SQLAlchemyError, OSError):
        async with asyncio.timeout(_RELEASE_SECONDS):
            return await asyncio.shield(releasing)
    return None
