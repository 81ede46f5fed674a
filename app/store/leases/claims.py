"""Claiming an attempt for a worker, and the terms of a lease.

    NotClaimed               the attempt is not available now; there is nothing to undo
    ├── HeadBusy             another attempt of that head is running; this one stays queued
    ├── Postponed            raised by the worker: the attempt has to wait, and the try does not count     seconds
    └── TriesExhausted       it has just been ended as `error`            attempt

This module knows no heartbeat: a claim that is not renewed expires by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from agent.contract.events import Degraded
from agent.contract.outcome import Outcome
from app.clock import Clock, elapsed
from app.store.database.database import Database
from app.store.database.retries import retried
from app.store.leases import changes, quotas
from app.store.leases.quotas import NO_QUOTAS, UNLIMITED, Allowance, Quotas
from app.store.models import AttemptRow
from app.store.queries import read_attempt
from app.store.values import Attempt

QUOTA_NEXT = "Comment `/heal` once the quota allows it."


class NotClaimed(Exception):
    """The attempt is not available now; the message says why."""


class HeadBusy(NotClaimed):
    def __init__(self) -> None:
        super().__init__("another attempt of this commit is running")


class Postponed(NotClaimed):
    """A dependency is unavailable; the attempt goes back to the queue and waits for `seconds`."""

    def __init__(self, reason: str, seconds: float) -> None:
        super().__init__(reason)
        self.seconds = seconds


class TriesExhausted(NotClaimed):
    def __init__(self, attempt: Attempt) -> None:
        super().__init__(attempt.reason or "")
        self.attempt = attempt


@dataclass(frozen=True, slots=True)
class Terms:
    """The limits of a lease. It expires after `silence` seconds without a heartbeat; a try fails after `longest` seconds.

    After `tries` failed tries, the attempt ends. An ended attempt can be forked for the duration `keep`. `quotas` limit all
    attempts of a day together, `most` limits one.
    """

    silence: float
    longest: float
    tries: int
    keep: timedelta = timedelta(days=14)
    quotas: Quotas = NO_QUOTAS
    most: Allowance = UNLIMITED


class Claimed(NamedTuple):
    attempt: Attempt
    token: int  # fences the holder's writes
    since: float  # when the lease began at the earliest, by `app.clock.elapsed`


async def claim(database: Database, clock: Clock, terms: Terms, attempt_id: str, worker: str) -> Claimed:
    """Claim the attempt for a worker. Raises `NotClaimed` and its subclasses.

    Waits for an unavailable database as long as a lease lasts. If the reply to the commit is lost, it recognises its claim.
    """
    written: tuple[str | None, int, datetime | None] | None = None

    async def once() -> Claimed:
        nonlocal written
        began = elapsed()
        refusal: str | None = None
        try:
            async with database.write() as session:
                await quotas.lock(session)
                row = await session.get(AttemptRow, attempt_id, with_for_update=True)
                if row is None:
                    raise NotClaimed("there is no such attempt")
                # The heartbeat's microseconds distinguish our claim from one by another process of the same name.
                if row.status != "running" or (row.lease_owner, row.lease_token, row.heartbeat_at) != written:
                    refusal = await _assign(session, row, worker, clock.now(), terms)
                    await session.flush()
                    written = row.lease_owner, row.lease_token, row.heartbeat_at
                token = row.lease_token
                attempt = await read_attempt(session, attempt_id)
        except IntegrityError as error:
            raise HeadBusy from error
        if refusal is not None or attempt is None:
            raise NotClaimed(refusal)
        if attempt.outcome is not None:
            raise TriesExhausted(attempt)
        return Claimed(attempt, token, began)

    return await retried(once, terms.silence)


def take(row: AttemptRow, worker: str, now: datetime, terms: Terms) -> None:
    """Set the lease's new owner and expiry on the row."""
    row.lease_owner = worker
    row.lease_token += 1
    row.heartbeat_at = now
    row.lease_expires_at = now + timedelta(seconds=terms.silence)


async def _assign(session: AsyncSession, row: AttemptRow, worker: str, now: datetime, terms: Terms) -> str | None:
    """Give the attempt to the worker, or end it if no try is left; returns a refusal, if any."""
    refusal = _refusal(row, now)
    if refusal is not None:
        return refusal
    if row.cancel_outcome is not None:
        refusal = row.cancel_reason or "it was cancelled"
        await changes.end(session, row, changes.ended(Outcome(row.cancel_outcome), refusal), now)
        return refusal
    if row.tries >= terms.tries:
        await changes.end(session, row, changes.exhausted(row), now)
        return None
    # A command's commit is not known yet, so its refusal could not be shown: `Lease.reserve` checks it, as that of a later try.
    is_checked = row.head_sha is None or row.tokens_reserved is not None
    if not is_checked and isinstance(left := await quotas.reserve(session, row, terms.quotas, terms.most, now), str):
        await changes.end(session, row, changes.ended(Outcome.REFUSED, left, QUOTA_NEXT), now)
        row.told = False
        return left
    if row.status == "running":
        text = "Taken over: the previous worker stopped responding"
        await changes.add_event(session, row, Degraded(text=text, step="attempt", why="its lease expired"), now)
    take(row, worker, now, terms)
    row.status, row.running_sha, row.due_at = "running", row.head_sha, None
    row.tries += 1
    row.started_at = row.started_at or now
    row.gathered_at = None  # it gathers again
    return None


def _refusal(row: AttemptRow, now: datetime) -> str | None:
    if row.status == "ended":
        return f"it has ended as {row.outcome}"
    if row.status == "waiting":
        return "it is waiting for a person"
    if row.status == "queued" and row.due_at is not None and row.due_at > now:
        return f"it is postponed until {row.due_at:%H:%M:%S} UTC"
    if row.status == "running" and row.lease_expires_at is not None and row.lease_expires_at > now:
        return f"{row.lease_owner} is working on it"
    return None
