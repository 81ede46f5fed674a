"""Writes shared by all that change an attempt: timeline events, numbers, endings. Inside the caller's transaction."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from agent.contract.events import AnyEvent, Ended
from agent.contract.outcome import Outcome
from app.store.events import encode
from app.store.figures import meters
from app.store.models import AttemptRow, EventRow

_TRY_AGAIN = "Check the timeline and the worker's log, then comment `/heal` on a pull request of the branch to try again."


async def add_event(session: AsyncSession, row: AttemptRow, event: AnyEvent, now: datetime) -> None:
    """Append to the timeline and the figures. The caller's transaction locks the row, so the sequence has no gaps."""
    row.event_count += 1
    session.add(EventRow(attempt_id=row.id, sequence=row.event_count, at=now, body=encode(event)))
    await meters.count(session, event)


async def has_event(session: AsyncSession, row: AttemptRow, body: str, after: int) -> bool:
    """Whether the timeline has this encoded event after that sequence number."""
    same = select(EventRow.sequence).where(EventRow.attempt_id == row.id, EventRow.sequence > after, EventRow.body == body)
    return await session.scalar(same.limit(1)) is not None


async def next_number(session: AsyncSession, repository_id: int, head_sha: str) -> int:
    """The number of the head's next attempt. The unique constraint decides between two at once."""
    highest = await session.scalar(
        select(func.max(AttemptRow.number)).where(AttemptRow.repository_id == repository_id, AttemptRow.head_sha == head_sha)
    )
    return (highest or 0) + 1


async def end(session: AsyncSession, row: AttemptRow, event: Ended, now: datetime, *, reported: bool = False) -> None:
    """End the attempt; a lease on it is lost.

    Unless `reported`, a worker reports it to GitHub later. GitHub shows nothing of an attempt that no worker has started or
    whose commit is unknown, so there is nothing to report.
    """
    await add_event(session, row, event, now)
    row.status, row.outcome, row.reason, row.next_step = "ended", Outcome(event.outcome), event.reason, event.next_step
    row.ended_at, row.due_at = now, None
    row.told = reported or row.started_at is None or row.head_sha is None
    row.lease_owner = row.lease_expires_at = row.running_sha = row.question = None
    row.cancel_outcome = row.cancel_reason = None


def ended(outcome: Outcome, reason: str, next_step: str = "") -> Ended:
    return Ended(text=reason, outcome=outcome, reason=reason, next_step=next_step)


def exhausted(row: AttemptRow) -> Ended:
    """The end of an attempt that has no tries left."""
    why = f"the last with {row.last_error}" if row.last_error else "each time because the worker died or stopped responding"
    return ended(Outcome.ERROR, f"{row.tries} tries failed, {why}.", _TRY_AGAIN)


async def cancel(session: AsyncSession, row: AttemptRow, outcome: Outcome, reason: str, now: datetime) -> None:
    """End a queued or waiting attempt; ask a running one's worker to end it at its next heartbeat."""
    if row.status == "running":
        row.cancel_outcome, row.cancel_reason = outcome, reason
    elif row.status != "ended":
        await end(session, row, ended(outcome, reason), now)
