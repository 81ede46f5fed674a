"""What is read: attempts, timelines, blobs' owners, as plain values. Writes nothing."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, and_, or_, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased, joinedload, selectinload

from app.store.events import Stored, decode
from app.store.models import AttemptRow, DeliveryRow, EventRow, PullRequestRow, RepositoryRow
from app.store.values import Attempt, Fate, Mark, Place, Status, Wanted, attempt_of

_MANY = 500  # ids in one query
_WHOLE = (joinedload(AttemptRow.repository), joinedload(AttemptRow.pull_request), selectinload(AttemptRow.requests))


async def read_attempt(session: AsyncSession, attempt_id: str) -> Attempt | None:
    row = await session.scalar(
        select(AttemptRow).where(AttemptRow.id == attempt_id).options(*_WHOLE).execution_options(populate_existing=True)
    )
    return attempt_of(row) if row is not None else None


async def origin(session: AsyncSession, attempt_id: str) -> str | None:
    """GUID of the delivery that caused the attempt: the first of those that asked for it."""
    query = (
        select(DeliveryRow.guid).where(DeliveryRow.attempt_id == attempt_id).order_by(DeliveryRow.received_at, DeliveryRow.guid)
    )
    guid: str | None = await session.scalar(query.limit(1))
    return guid


async def find_attempts(session: AsyncSession, beginning: str) -> list[Attempt]:
    """The attempt whose id begins so, in any case: none, the one, or two of more."""
    if not beginning:
        return []
    query = select(AttemptRow).where(AttemptRow.id.startswith(beginning.lower(), autoescape=True)).options(*_WHOLE).limit(2)
    return [attempt_of(row) for row in (await session.scalars(query)).unique()]


async def list_attempts(
    session: AsyncSession, *, repository: str | None = None, status: Status | None = None, limit: int = 50
) -> list[Attempt]:
    """Newest first. `repository` is a full name, in any case."""
    query = select(AttemptRow).join(AttemptRow.repository).options(*_WHOLE)
    if repository is not None:
        query = query.where(RepositoryRow.full_name.ilike(literally(repository), escape="\\"))
    if status is not None:
        query = query.where(AttemptRow.status == status)
    rows = await session.scalars(query.order_by(AttemptRow.created_at.desc(), AttemptRow.id).limit(limit))
    return [attempt_of(row) for row in rows.unique()]


async def page_of_attempts(session: AsyncSession, wanted: Wanted, before: Place | None, limit: int) -> list[Attempt]:
    """At most `limit` attempts, newest first, those older than the place `before`."""
    query = select(AttemptRow).join(AttemptRow.repository).options(*_WHOLE)
    if wanted.repository:
        query = query.where(RepositoryRow.full_name.ilike(f"%{literally(wanted.repository)}%", escape="\\"))
    if wanted.status is not None:
        query = query.where(AttemptRow.status == wanted.status)
    if wanted.outcome is not None:
        query = query.where(AttemptRow.outcome == wanted.outcome)
    if wanted.trigger is not None:
        query = query.where(AttemptRow.trigger == wanted.trigger)
    if before is not None:
        at_once = and_(AttemptRow.created_at == before.created_at, AttemptRow.id < before.id)
        query = query.where(or_(AttemptRow.created_at < before.created_at, at_once))
    rows = await session.scalars(query.order_by(AttemptRow.created_at.desc(), AttemptRow.id.desc()).limit(limit))
    return [attempt_of(row) for row in rows.unique()]


async def marks(session: AsyncSession, attempt_ids: Collection[str]) -> dict[str, Mark]:
    """How far each of these attempts is; of those that are not there, nothing."""
    columns = (AttemptRow.id, AttemptRow.event_count, AttemptRow.status, AttemptRow.tokens_out, AttemptRow.pull_request_id)
    found: dict[str, Mark] = {}
    ids = list(attempt_ids)
    for first in range(0, len(ids), _MANY):
        rows = await session.execute(select(*columns).where(AttemptRow.id.in_(ids[first : first + _MANY])))
        found.update({row[0]: Mark(*row[1:]) for row in rows})
    return found


async def fates(session: AsyncSession, *, repository: str | None = None) -> list[Fate]:
    """Of every pull request whose repair's confidence is known; of several attempts that renewed one, the last counts."""
    query = (
        select(AttemptRow.pull_request_id, AttemptRow.confidence, PullRequestRow.state)
        .join(AttemptRow.repository)
        .join(AttemptRow.pull_request)
        .where(AttemptRow.confidence.is_not(None))
        .order_by(AttemptRow.number)
    )
    if repository is not None:
        query = query.where(RepositoryRow.full_name.ilike(literally(repository), escape="\\"))
    rows = await session.execute(query)
    return list({pull: Fate(confidence or 0.0, state) for pull, confidence, state in rows}.values())


async def timeline(session: AsyncSession, attempt_id: str, after: int = 0, limit: int | None = None) -> list[Stored]:
    """The attempt's events in order, those beyond the sequence number `after`; at most `limit` of them, where there is one."""
    rows = await session.scalars(
        select(EventRow)
        .where(EventRow.attempt_id == attempt_id, EventRow.sequence > after)
        .order_by(EventRow.sequence)
        .limit(limit)
    )
    return [Stored(row.sequence, row.at, decode(row.body)) for row in rows]


async def due(session: AsyncSession, now: datetime, keep: timedelta, limit: int = 500) -> list[str]:
    """Ids of attempts that wait for a worker, oldest first; at last those that ended longer ago than their checkpoints are to
    `keep`.

    Queued ones, running ones whose lease ran out, ended ones of whose end GitHub is still to be told and which nobody is
    telling. Each kind is asked for apart, because each has an index of its own: every worker asks every few seconds, of all
    that ever was.
    """
    is_due = or_(AttemptRow.due_at.is_(None), AttemptRow.due_at <= now)
    queued = and_(AttemptRow.status == "queued", is_due)
    abandoned = and_(AttemptRow.status == "running", AttemptRow.lease_expires_at <= now)
    is_free = or_(AttemptRow.lease_expires_at.is_(None), AttemptRow.lease_expires_at <= now)
    untold = and_(AttemptRow.ended_at.is_not(None), AttemptRow.told.is_(False), is_free, is_due)

    async def oldest(which: ColumnElement[bool], limit: int) -> list[tuple[datetime, str]]:
        query = select(AttemptRow.created_at, AttemptRow.id).where(which).order_by(AttemptRow.created_at).limit(limit)
        return [(created_at, attempt_id) for created_at, attempt_id in await session.execute(query)]

    found = sorted([each for which in (queued, abandoned, untold) for each in await oldest(which, limit)])[:limit]
    found += await oldest(stale(now, keep), limit - len(found))
    return [attempt_id for _, attempt_id in found]


def stale(now: datetime, keep: timedelta) -> ColumnElement[bool]:
    """Attempts whose checkpoints are to be dropped.

    Not while a fork still has its own: it uses file contents that are as old as its source.
    """
    fork = aliased(AttemptRow)
    is_used = select(fork.id).where(fork.forked_from == AttemptRow.id, fork.forgotten.is_(False)).exists()
    # What ended so long ago was made before that, which is what the index knows.
    is_over = and_(AttemptRow.told.is_(True), AttemptRow.ended_at <= now - keep, AttemptRow.created_at <= now - keep)
    return and_(is_over, AttemptRow.forgotten.is_(False), ~is_used)


def literally(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
