"""A person's decisions about an attempt: the reply to a question, a fork. Inside the caller's transaction.

A refusal is a sentence for that person and changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import msgspec
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from agent.contract.events import Answered, StepStarted
from agent.contract.question import Question, Reply
from app.store.events import as_json
from app.store.leases import endings
from app.store.models import AttemptRow, RequestRow

LONGEST_WORD = 4_000  # characters of a person's reason or hint


@dataclass(frozen=True, slots=True)
class Fork:
    """A new attempt that continues from one round of another with a hint or another model."""

    id: str
    source: str  # id of the forked attempt
    from_iteration: int
    hint: str = ""
    model: str | None = None  # LiteLLM name of the model to use


async def reply(session: AsyncSession, attempt_id: str, approved: bool, why: str, now: datetime) -> str | None:
    """Answer the attempt's question and queue it again; otherwise a sentence why not."""
    row = await session.get(AttemptRow, attempt_id, with_for_update=True)
    if row is None:
        return f"there is no attempt {attempt_id!r}; `selfheal attempts list` shows them"
    if row.status != "waiting" or row.asking is None or row.question is None:
        return _not_waiting(row)
    word = Reply(approved, why.strip()[:LONGEST_WORD], to=row.asking)
    row.reply, row.answered_at = as_json(word), now
    row.status = "queued"
    about = msgspec.json.decode(row.question, type=Question).about
    # Recorded now: a worker may pick it up late, or never if the branch has moved on.
    await endings.add_event(session, row, Answered(text=word.summary, about=about, approved=approved, why=word.why), now)
    return None


def _not_waiting(row: AttemptRow) -> str:
    known = row.id[:12]
    if row.status == "ended":
        return f"attempt {known} has already ended as {row.outcome}; `selfheal attempts show {known}` says why"
    if row.reply is not None:
        said = "approved" if msgspec.json.decode(row.reply, type=Reply).approved else "rejected"
        return f"attempt {known} was already {said} and is {row.status}; it asks again if it needs another answer"
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
        number=await endings.next_number(session, source.repository_id, source.head_sha),
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
        session.add(
            RequestRow(
                attempt_id=row.id,
                source=request.source,
                run_id=request.run_id,
                check_run_id=request.check_run_id,
                check_suite_id=request.check_suite_id,
                pull_number=request.pull_number,
                sender=request.sender,
                title=request.title,
                created_at=now,
            )
        )
    await endings.add_event(session, row, StepStarted(step="fork", text=describe_fork(fork)), now)


def describe_fork(fork: Fork) -> str:
    """Where a fork comes from, as a sentence without its full stop."""
    model = f", with {fork.model}" if fork.model else ""
    hint = f", with the hint: {fork.hint.rstrip('.')}" if fork.hint else ""
    return f"Forked from attempt {fork.source[:12]} before round {fork.from_iteration}{model}{hint}"
