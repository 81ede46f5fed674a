"""Changes of an attempt: timeline events, endings, and a person's decisions (the reply to a question, a fork).

All run inside the caller's transaction. A refused decision changes nothing; the result is a sentence for that person.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import msgspec
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from agent.contract.events import Answered, AnyEvent, Ended, StepStarted
from agent.contract.outcome import Outcome
from agent.contract.question import Question, Reply
from app.store import figures
from app.store.events import as_json, encode
from app.store.models import AttemptRow, EventRow, RequestRow
from app.store.values import REQUEST_FIELDS

_TRY_AGAIN = (
    "Comment `/heal` on a pull request of the branch to try again. If it fails again, ask the operator of Selfheal, who has "
    "the worker's log."
)


async def add_event(session: AsyncSession, row: AttemptRow, event: AnyEvent, now: datetime) -> None:
    """Append to the timeline and the figures. The caller's transaction locks the row, so the sequence has no gaps."""
    row.event_count += 1
    session.add(EventRow(attempt_id=row.id, sequence=row.event_count, at=now, body=encode(event)))
    await figures.count(session, event)


async def has_event(session: AsyncSession, row: AttemptRow, body: str, after: int) -> bool:
    """Whether the timeline has this encoded event after that sequence number."""
    same = select(EventRow.sequence).where(EventRow.attempt_id == row.id, EventRow.sequence > after, EventRow.body == body)
    return await session.scalar(same.limit(1)) is not None


async def next_number(session: AsyncSession, repository_id: int, head_sha: str) -> int:
    """The number of the head's next attempt. If two transactions get the same one, the unique constraint decides."""
    highest = await session.scalar(
        select(func.max(AttemptRow.number)).where(AttemptRow.repository_id == repository_id, AttemptRow.head_sha == head_sha)
    )
    return (highest or 0) + 1


async def end(session: AsyncSession, row: AttemptRow, event: Ended, now: datetime, *, reported: bool = False) -> None:
    """End the attempt; any lease on it is lost.

    Unless `reported`, a worker reports the outcome to GitHub later. GitHub shows nothing of an attempt that no worker has
    started or whose commit is unknown, so there is nothing to report.
    """
    await add_event(session, row, event, now)
    row.status, row.outcome, row.reason, row.next_step = "ended", Outcome(event.outcome), event.reason, event.next_step
    row.ended_at, row.due_at = now, None
    row.told = reported or row.started_at is None or row.head_sha is None
    row.lease_owner = row.lease_expires_at = row.running_sha = row.question = None
    row.cancel_outcome = row.cancel_reason = None
    row.tokens_reserved, row.cost_reserved = 0, 0.0  # from now on, quotas count what it spent


def ended(outcome: Outcome, reason: str, next_step: str = "") -> Ended:
    return Ended(text=reason, outcome=outcome, reason=reason, next_step=next_step)


def exhausted(row: AttemptRow) -> Ended:
    """The ending of an attempt that has no tries left."""
    why = f"the last with {row.last_error}" if row.last_error else "each time because the worker died or stopped responding"
    return ended(Outcome.ERROR, f"{row.tries} tries failed, {why}.", _TRY_AGAIN)


async def cancel(session: AsyncSession, row: AttemptRow, outcome: Outcome, reason: str, now: datetime) -> None:
    """End a queued or waiting attempt; ask a running one's worker to end it at its next heartbeat."""
    if row.status == "running":
        row.cancel_outcome, row.cancel_reason = outcome, reason
    elif row.status != "ended":
        await end(session, row, ended(outcome, reason), now)


_FORKED = set(REQUEST_FIELDS) - {"comment_id", "flaky"}  # a comment is one command
LONGEST_WORD = 4_000  # characters of a person's reason or hint


@dataclass(frozen=True, slots=True)
class Fork:
    """A new attempt that continues an earlier one from one of that attempt's iterations, with a hint or another model."""

    id: str
    source: str  # id of the forked attempt
    from_iteration: int
    hint: str = ""
    model: str | None = None  # LiteLLM name of the model to use


async def reply(session: AsyncSession, attempt_id: str, approved: bool, why: str, now: datetime) -> str | None:
    """Answer the attempt's question and queue it again; returns a sentence if that is not possible."""
    row = await session.get(AttemptRow, attempt_id, with_for_update=True)
    if row is None:
        return f"there is no attempt {attempt_id!r}; `selfheal attempts list` shows the ids"
    if row.status != "waiting" or row.asking is None or row.question is None:
        return _not_waiting(row)
    word = Reply(approved, why.strip()[:LONGEST_WORD], to=row.asking)
    row.reply, row.answered_at = as_json(word), now
    row.status = "queued"
    about = msgspec.json.decode(row.question, type=Question).about
    # Recorded now: a worker may continue the attempt late, or never if the branch has moved on.
    await add_event(session, row, Answered(text=word.summary, about=about, approved=approved, why=word.why), now)
    return None


def _not_waiting(row: AttemptRow) -> str:
    known = row.id[:12]
    if row.status == "ended":
        return f"attempt {known} has already ended as {row.outcome}; `selfheal attempts show {known}` shows why"
    if row.reply is not None:
        said = "approved" if msgspec.json.decode(row.reply, type=Reply).approved else "rejected"
        return f"attempt {known} was already {said} and is {row.status}; if it needs another answer, it asks again"
    return f"attempt {known} is not waiting for approval: it is {row.status}"


async def fork(session: AsyncSession, fork: Fork, now: datetime) -> None:
    """Queue a new attempt of the source's head. Raises `IntegrityError` if another attempt took its number."""
    source = await session.get_one(AttemptRow, fork.source)
    if source.head_sha is None:
        raise ValueError(f"the head of attempt {source.id} is not known")
    row = AttemptRow(
        id=fork.id,
        repository_id=source.repository_id,
        installation_id=source.installation_id,
        trigger="fork",
        head_sha=source.head_sha,
        head_branch=source.head_branch,
        number=await next_number(session, source.repository_id, source.head_sha),
        status="queued",
        forked_from=source.id,
        from_iteration=fork.from_iteration,
        model=fork.model,
        event_count=0,
        created_at=now,
    )
    session.add(row)
    await session.flush()
    for request in await session.scalars(select(RequestRow).where(RequestRow.attempt_id == source.id).order_by(RequestRow.id)):
        session.add(RequestRow(attempt_id=row.id, created_at=now, **{name: getattr(request, name) for name in _FORKED}))
    await add_event(session, row, StepStarted(step="fork", text=describe_fork(fork)), now)


def describe_fork(fork: Fork) -> str:
    """The origin of a fork, as a sentence without its full stop."""
    model = f", with {fork.model}" if fork.model else ""
    hint = f", with the hint: {fork.hint.rstrip('.')}" if fork.hint else ""
    return f"Forked from attempt `{fork.source[:12]}` before iteration {fork.from_iteration}{model}{hint}"
