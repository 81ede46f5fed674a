"""Who may work on an attempt, and on what terms: the claim.

    NotClaimed               the attempt is not to be worked on now; there is nothing to undo
    ├── HeadBusy             another attempt of that head runs; this one stays queued
    ├── Postponed            raised by who works on it: it shall wait, and the try does not count     seconds
    └── TriesExhausted       it has just been ended as `error`            attempt

Knows no heartbeat: a claim that nobody prolongs runs out by itself.
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
from app.store.database.retries import patiently
from app.store.leases import endings
from app.store.models import AttemptRow
from app.store.queries import read_attempt
from app.store.values import Attempt


class NotClaimed(Exception):
    """The attempt is not to be worked on now; the message says why."""


class HeadBusy(NotClaimed):
    def __init__(self) -> None:
        super().__init__("another attempt of this commit is running")


class Postponed(NotClaimed):
    """What the work needs is away for now; the attempt goes back into the queue for so many seconds."""

    def __init__(self, reason: str, seconds: float) -> None:
        super().__init__(reason)
        self.seconds = seconds


class TriesExhausted(NotClaimed):
    def __init__(self, attempt: Attempt) -> None:
        super().__init__(attempt.reason or "")
        self.attempt = attempt


@dataclass(frozen=True, slots=True)
class Terms:
    """How leases are given: `silence` seconds lose one, `longest` seconds fail a try, `tries` failed ones end the attempt.

    What an attempt was made from can be forked for `keep` after its end.
    """

    silence: float
    longest: float
    tries: int
    keep: timedelta = timedelta(days=14)


class Claimed(NamedTuple):
    attempt: Attempt
    token: int  # fences the writes of who holds it
    since: float  # of `app.clock.elapsed`: from then on the claim lasts at least


async def claim(database: Database, clock: Clock, terms: Terms, attempt_id: str, worker: str) -> Claimed:
    """Take the attempt for a worker. Raises `NotClaimed`, as the tree above has it.

    A database that is away is waited for, for as long as a lease lasts; a claim whose commit was not answered is found again.
    """
    written: tuple[str | None, int, datetime | None] | None = None

    async def once() -> Claimed:
        nonlocal written
        began = elapsed()
        refusal: str | None = None
        try:
            async with database.write() as session:
                row = await session.get(AttemptRow, attempt_id, with_for_update=True)
                if row is None:
                    raise NotClaimed("there is no such attempt")
                # The time of claiming, to the microsecond, tells it from a claim by another process of the same name.
                if row.status != "running" or (row.lease_owner, row.lease_token, row.heartbeat_at) != written:
                    refusal = await _begin(session, row, worker, clock.now(), terms)
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

    return await patiently(once, terms.silence)


def take(row: AttemptRow, worker: str, now: datetime, terms: Terms) -> None:
    """Note on the row who holds it now, and until when unless he prolongs it."""
    row.lease_owner = worker
    row.lease_token += 1
    row.heartbeat_at = now
    row.lease_expires_at = now + timedelta(seconds=terms.silence)


async def _begin(session: AsyncSession, row: AttemptRow, worker: str, now: datetime, terms: Terms) -> str | None:
    """Give the attempt to the worker, or end it when it is not to be tried any more; why it is refused, if so."""
    refusal = _refusal(row, now)
    if refusal is not None:
        return refusal
    if row.cancel_outcome is not None:
        refusal = row.cancel_reason or "it was cancelled"
        await endings.end(session, row, endings.ended(Outcome(row.cancel_outcome), refusal), now)
        return refusal
    if row.tries >= terms.tries:
        await endings.end(session, row, endings.exhausted(row), now)
        return None
    if row.status == "running":
        text = "Taken over: the worker before fell silent"
        await endings.add_event(session, row, Degraded(text=text, step="attempt", why="its lease ran out"), now)
    take(row, worker, now, terms)
    row.status, row.running_sha, row.due_at = "running", row.head_sha, None
    row.tries += 1
    row.started_at = row.started_at or now
    return None


def _refusal(row: AttemptRow, now: datetime) -> str | None:
    if row.status == "ended":
        return f"it has ended as {row.outcome}"
    if row.status == "waiting":
        return "it waits for a person"
    if row.status == "queued" and row.due_at is not None and row.due_at > now:
        return f"it is postponed until {row.due_at:%H:%M:%S} UTC"
    if row.status == "running" and row.lease_expires_at is not None and row.lease_expires_at > now:
        return f"{row.lease_owner} is working on it"
    return None
