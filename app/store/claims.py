"""Who may work on an attempt, and on what terms: the claim.

    NotClaimed               the attempt is not to be worked on now; there is nothing to undo
    ├── HeadBusy             another attempt of that head runs; this one stays queued
    ├── Postponed            raised by who works on it: it shall wait, and the try does not count     seconds
    └── TriesExhausted       it has just been ended as `error`            attempt

Knows no heartbeat: a claim that nobody prolongs runs out by itself.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy.exc import IntegrityError

from agent.outcome import Outcome
from app.clock import Clock
from app.store import endings
from app.store.database import Database
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


async def claim(database: Database, clock: Clock, terms: Terms, attempt_id: str, worker: str) -> tuple[Attempt, int, float]:
    """Take the attempt for a worker: the attempt, its new lease token, and the monotonic time from which on the lease lasts at
    least. Raises `NotClaimed`, as the tree above has it."""
    began = time.monotonic()
    refusal: str | None = None
    attempt: Attempt | None = None
    try:
        async with database.write() as session:
            row = await session.get(AttemptRow, attempt_id, with_for_update=True)
            if row is None:
                raise NotClaimed("there is no such attempt")
            now = clock.now()
            refusal = _refusal(row, now)
            if refusal is None and row.cancel_outcome is not None:
                refusal = row.cancel_reason or "it was cancelled"
                endings.end(session, row, endings.ended(Outcome(row.cancel_outcome), refusal), now)
            elif refusal is None and row.tries >= terms.tries:
                endings.end(session, row, endings.exhausted(row), now)
            elif refusal is None:
                row.status, row.lease_owner, row.running_sha = "running", worker, row.head_sha
                row.lease_token += 1
                row.tries += 1
                row.due_at = None
                row.heartbeat_at = now
                row.started_at = row.started_at or now
                row.lease_expires_at = now + timedelta(seconds=terms.silence)
            await session.flush()
            token = row.lease_token
            attempt = await read_attempt(session, attempt_id)
    except IntegrityError as error:
        raise HeadBusy from error
    if refusal is not None or attempt is None:
        raise NotClaimed(refusal)
    if attempt.outcome is not None:
        raise TriesExhausted(attempt)
    return attempt, token, began


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
