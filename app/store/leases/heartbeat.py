"""The lease on an attempt's row: heartbeat, fencing, and what happens when it is lost.

A claim increments the row's lease token, and every write checks it, so a worker whose lease expired while it was suspended
cannot change anything. Working on an attempt and reporting its outcome use the same kind of lease (`leases`).
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

from agent.contract.outcome import Outcome
from app.clock import Clock, elapsed
from app.store.database.database import Database
from app.store.database.retries import retried
from app.store.leases.claims import Claimed, Terms, TriesExhausted
from app.store.models import AttemptRow
from app.store.values import Attempt, Status

_BEATS_PER_LEASE = 6
_BEAT_SECONDS = 5.0  # minimum time for a heartbeat, even a late one: a starved process may still hold its lease
_RELEASE_SECONDS = 10.0
T = TypeVar("T")
L = TypeVar("L", bound="RowLease")


class LeaseLost(Exception):
    """Another worker may own the attempt: this one must not write."""


class RowLease:
    """One worker's lease on one attempt in one status. Every method raises `LeaseLost` once it is lost."""

    status: ClassVar[Status]

    def __init__(self, database: Database, clock: Clock, terms: Terms, claimed: Claimed) -> None:
        self.attempt, self._token, self._beaten = claimed
        self.over = False
        self._ending = False
        self._database = database
        self._clock = clock
        self._terms = terms

    def check(self) -> None:
        """Raise `LeaseLost` if the lease may have expired, judged by this process's own clock.

        Call this before any write outside the database: another worker might be doing the same.
        """
        if elapsed() > self._beaten + self._terms.silence:
            raise LeaseLost(f"the lease on attempt {self.attempt.id} has not been renewed for {self._terms.silence:g} s")

    @contextlib.asynccontextmanager
    async def _fenced(self) -> AsyncIterator[tuple[AsyncSession, AttemptRow]]:
        """A transaction that locks the attempt's row. Raises `LeaseLost` if the row is no longer ours."""
        async with self._database.write() as session:
            ours = (AttemptRow.id == self.attempt.id, AttemptRow.lease_token == self._token, AttemptRow.status == self.status)
            # An update first: it takes the row's lock on every database.
            held = await session.execute(
                update(AttemptRow).where(*ours).values(lease_token=self._token).returning(AttemptRow.id)
            )
            if held.first() is None:
                raise LeaseLost(f"attempt {self.attempt.id} is no longer ours")
            yield session, await session.get_one(AttemptRow, self.attempt.id)

    async def _release(self, error: BaseException | None) -> Attempt | None:
        """Release the row after `error`, if any; returns the attempt if that ended it."""
        raise NotImplementedError

    def _stopped(self, row: AttemptRow) -> Exception | None:
        """The reason why the work must stop, if a stop was requested."""
        return None

    async def _beat(self) -> Exception | None:
        """Renew the lease; returns the reason why the work must stop, if a stop was requested."""
        async with self._fenced() as (_, row):
            row.heartbeat_at = self._clock.now()
            row.lease_expires_at = row.heartbeat_at + timedelta(seconds=self._terms.silence)
            return self._stopped(row)

    async def _keep(self, body: asyncio.Task[object]) -> Exception:
        """Send heartbeats until the lease ends, then cancel the body and return the reason.

        Waits for an unavailable database while the lease lasts.
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
                    why = LeaseLost(f"the database has been unavailable for {self._terms.silence:g} s: {error}")
            except Exception as error:  # noqa: BLE001 - any bug: without heartbeats the work must stop, and gets the error
                why = error
        body.cancel()
        return why


@contextlib.asynccontextmanager
async def held(lease: L) -> AsyncIterator[L]:
    """Keep the lease alive for the block, then release it. If the lease is lost, cancel the block and raise the reason.

    Raises `TriesExhausted` if the block's error ended the attempt.
    """
    error: BaseException | None = None
    try:
        async with _kept_alive(lease):
            yield lease
    except BaseException as raised:  # noqa: BLE001 - anything; raised again below, once the lease is released
        error = raised
    ended: Attempt | None = None
    if not lease.over and not isinstance(error, LeaseLost):
        ended = await _release_in_time(lambda: lease._release(error))
    if ended is not None and ended.outcome is Outcome.ERROR:
        raise TriesExhausted(ended) from error
    if error is not None:
        raise error


@contextlib.asynccontextmanager
async def _kept_alive(lease: RowLease) -> AsyncIterator[None]:
    """Keep the lease alive for the block. If the lease is lost, cancel the block and raise the reason."""
    body = asyncio.current_task()
    assert body is not None
    cancelling = body.cancelling()
    keeper = asyncio.create_task(lease._keep(body), name=f"lease of {lease.attempt.id}")
    error: BaseException | None = None
    try:
        yield
        await asyncio.sleep(0)  # a cancellation that came as the block ended arrives here
    except BaseException as raised:  # noqa: BLE001 - anything, cancellation above all; raised again below
        error = raised
    if keeper.done():
        if body.uncancel() <= cancelling and isinstance(error, asyncio.CancelledError):
            error = keeper.result()
    else:
        keeper.cancel()
        await asyncio.wait({keeper})
    if error is not None:
        raise error


async def _release_in_time(release: Callable[[], Awaitable[T]]) -> T | None:
    """Release, even if this task is cancelled, and return the result; None if that fails: the lease then expires by itself."""
    releasing = asyncio.create_task(retried(release, _RELEASE_SECONDS))
    with contextlib.suppress(LeaseLost, SQLAlchemyError, OSError):
        async with asyncio.timeout(_RELEASE_SECONDS):
            return await asyncio.shield(releasing)
    return None
