"""Reads attempts and timelines as plain values. Writes nothing."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, and_, func, or_, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased, joinedload, selectinload

from agent.contract.outcome import Outcome
from app.store.database.database import Database
from app.store.events import StoredEvent, decode
from app.store.models import (
    AttemptRow,
    CommandRow,
    DeliveryRow,
    EventRow,
    InstallationRow,
    PullRequestRow,
    RepositoryRow,
    RequestRow,
)
from app.store.values import Attempt, AttemptQuery, AttemptVersion, PullRequestResult, Status, attempt_of
from webhooks.intake import RepositoryRef

_MANY = 500  # ids in one query
_WHOLE = (joinedload(AttemptRow.repository), joinedload(AttemptRow.pull_request), selectinload(AttemptRow.requests))


async def read_attempt(session: AsyncSession, attempt_id: str) -> Attempt | None:
    row = await session.scalar(
        select(AttemptRow).where(AttemptRow.id == attempt_id).options(*_WHOLE).execution_options(populate_existing=True)
    )
    return attempt_of(row) if row is not None else None


class Queries:
    """Reads of attempts for people, pages and workers; `Store` adds the writes."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def attempt(self, attempt_id: str) -> Attempt | None:
        async with self.database.read() as session:
            return await read_attempt(session, attempt_id)

    async def origin(self, attempt_id: str) -> str | None:
        """GUID of the first delivery that requested the attempt; None for a fork or an unknown attempt."""
        query = select(DeliveryRow.guid).where(DeliveryRow.attempt_id == attempt_id)
        async with self.database.read() as session:
            guid: str | None = await session.scalar(query.order_by(DeliveryRow.received_at, DeliveryRow.guid).limit(1))
            return guid

    async def find_attempts(self, beginning: str) -> list[Attempt]:
        """The attempts whose id starts with `beginning`, in any case; at most two."""
        if not beginning:
            return []
        return await self._attempts(AttemptRow.id.startswith(beginning.lower(), autoescape=True), limit=2)

    async def attempts(self, *, repository: str | None = None, status: Status | None = None, limit: int = 50) -> list[Attempt]:
        """Newest first. `repository` is a full name, in any case."""
        named = () if repository is None else (is_named(repository),)
        return await self._attempts(*named, *(() if status is None else (AttemptRow.status == status,)), limit=limit)

    async def page_of_attempts(self, wanted: AttemptQuery, limit: int = 50) -> list[Attempt]:
        """At most `limit` attempts, newest first."""
        which: list[ColumnElement[bool]] = []
        if wanted.repository:
            which.append(RepositoryRow.full_name.ilike(f"%{_escaped(wanted.repository)}%", escape="\\"))
        fields = (
            (AttemptRow.status, wanted.status),
            (AttemptRow.outcome, wanted.outcome),
            (AttemptRow.trigger, wanted.trigger),
        )
        which += [column == value for column, value in fields if value is not None]
        if (before := wanted.before) is not None:
            at_once = and_(AttemptRow.created_at == before.created_at, AttemptRow.id < before.id)
            which.append(or_(AttemptRow.created_at < before.created_at, at_once))
        return await self._attempts(*which, limit=limit)

    async def attempts_with_open_pull_request(self, limit: int = 200) -> list[Attempt]:
        """The newest attempt of each pull request of ours that is open, in repositories where the App still is."""
        other = aliased(AttemptRow)
        newest = select(func.max(other.number)).where(other.pull_request_id == AttemptRow.pull_request_id).scalar_subquery()
        is_open = AttemptRow.pull_request.has(PullRequestRow.state == "open")
        return await self._attempts(is_open, RepositoryRow.removed.is_(False), AttemptRow.number == newest, limit=limit)

    async def attempts_to_outdate(self, since: datetime, limit: int = 200) -> list[Attempt]:
        """The newest attempts that ended since then, whose report may still ask people to act, and no open pull request."""
        is_reported = and_(AttemptRow.told.is_(True), AttemptRow.started_at.is_not(None), AttemptRow.outdated_at.is_(None))
        has_head = and_(AttemptRow.head_sha.is_not(None), AttemptRow.head_branch.is_not(None))
        is_open = AttemptRow.pull_request.has(PullRequestRow.state == "open")
        asks = and_(~is_open, AttemptRow.outcome != Outcome.SUPERSEDED)
        ended = AttemptRow.ended_at >= since
        return await self._attempts(ended, is_reported, has_head, asks, RepositoryRow.removed.is_(False), limit=limit)

    async def known_runs(self, run_ids: Collection[int]) -> set[tuple[int, int]]:
        """Those of the workflow runs that requested an attempt: id, and number of the run's attempt."""
        query = select(RequestRow.run_id, RequestRow.run_attempt).where(RequestRow.run_id.in_(run_ids))
        async with self.database.read() as session:
            return {(run_id, number or 1) for run_id, number in await session.execute(query) if run_id is not None}

    async def known_since(self, repository_ids: Collection[int]) -> dict[int, datetime]:
        """Since when each of the repositories is known, by its id."""
        query = select(RepositoryRow.id, RepositoryRow.known_at).where(RepositoryRow.id.in_(repository_ids))
        async with self.database.read() as session:
            return {id_: known_at for id_, known_at in await session.execute(query) if known_at is not None}

    async def repositories_with_automatic_suites(self, limit: int) -> list[tuple[int, RepositoryRef]]:
        """Repositories of active installations that GitHub may still make check suites of ours for, with their installation."""
        is_active = InstallationRow.state == "active"
        which = (RepositoryRow.suites_stopped_at.is_(None), RepositoryRow.removed.is_(False), is_active)
        query = select(RepositoryRow).join(InstallationRow, InstallationRow.id == RepositoryRow.installation_id).where(*which)
        async with self.database.read() as session:
            rows = await session.scalars(query.order_by(RepositoryRow.known_at.desc(), RepositoryRow.id).limit(limit))
            return [
                (row.installation_id, RepositoryRef(row.id, row.full_name, row.default_branch, row.private)) for row in rows
            ]

    async def _attempts(self, *which: ColumnElement[bool], limit: int) -> list[Attempt]:
        query = select(AttemptRow).join(AttemptRow.repository).options(*_WHOLE).where(*which)
        newest_first = query.order_by(AttemptRow.created_at.desc(), AttemptRow.id.desc()).limit(limit)
        async with self.database.read() as session:
            return [attempt_of(row) for row in (await session.scalars(newest_first)).unique()]

    async def versions(self, attempt_ids: Collection[str]) -> dict[str, AttemptVersion]:
        """The version of each of these attempts: a cheap way to see which ones changed. Unknown ids are left out."""
        columns = (AttemptRow.id, AttemptRow.event_count, AttemptRow.status, AttemptRow.tokens_out, AttemptRow.pull_request_id)
        found: dict[str, AttemptVersion] = {}
        ids = list(attempt_ids)
        async with self.database.read() as session:
            for first in range(0, len(ids), _MANY):
                rows = await session.execute(select(*columns).where(AttemptRow.id.in_(ids[first : first + _MANY])))
                found.update({row[0]: AttemptVersion(*row[1:]) for row in rows})
        return found

    async def pull_request_results(self, *, repository: str | None = None) -> list[PullRequestResult]:
        """Every pull request with a known confidence; if several attempts updated one, the last of them counts."""
        query = (
            select(AttemptRow.pull_request_id, AttemptRow.confidence, PullRequestRow.state)
            .join(AttemptRow.repository)
            .join(AttemptRow.pull_request)
            .where(AttemptRow.confidence.is_not(None), *(() if repository is None else (is_named(repository),)))
            .order_by(AttemptRow.number)
        )
        async with self.database.read() as session:
            rows = await session.execute(query)
            return list({pull: PullRequestResult(confidence or 0.0, state) for pull, confidence, state in rows}.values())

    async def timeline(self, attempt_id: str, after: int = 0, limit: int | None = None) -> list[StoredEvent]:
        """The attempt's events after the sequence number `after`, in order; at most `limit`."""
        query = select(EventRow).where(EventRow.attempt_id == attempt_id, EventRow.sequence > after)
        async with self.database.read() as session:
            rows = await session.scalars(query.order_by(EventRow.sequence).limit(limit))
            return [StoredEvent(row.sequence, row.at, decode(row.body)) for row in rows]


async def due(session: AsyncSession, now: datetime, keep: timedelta, limit: int = 500) -> list[str]:
    """Ids of attempts that wait for a worker, oldest first; then those whose checkpoints are older than `keep`.

    They are queued, or running with an expired lease, or ended with an outcome that nobody is reporting. Each kind has its own
    query and index: every worker searches all attempts every few seconds.
    """
    is_due = or_(AttemptRow.due_at.is_(None), AttemptRow.due_at <= now)
    queued = and_(AttemptRow.status == "queued", is_due)
    abandoned = and_(AttemptRow.status == "running", AttemptRow.lease_expires_at <= now)
    is_free = or_(AttemptRow.lease_expires_at.is_(None), AttemptRow.lease_expires_at <= now)
    unreported = and_(AttemptRow.ended_at.is_not(None), AttemptRow.told.is_(False), is_free, is_due)

    async def oldest(which: ColumnElement[bool], limit: int) -> list[tuple[datetime, str]]:
        query = select(AttemptRow.created_at, AttemptRow.id).where(which).order_by(AttemptRow.created_at).limit(limit)
        return [(created_at, attempt_id) for created_at, attempt_id in await session.execute(query)]

    found = sorted([each for which in (queued, abandoned, unreported) for each in await oldest(which, limit)])[:limit]
    found += await oldest(stale(now, keep), limit - len(found))
    return [attempt_id for _, attempt_id in found]


async def pulls_with_commands(session: AsyncSession, now: datetime, limit: int = 500) -> list[tuple[int, int]]:
    """Repository id and number of each pull request with a command to be decided."""
    is_due = or_(CommandRow.due_at.is_(None), CommandRow.due_at <= now)
    columns = CommandRow.repository_id, CommandRow.pull_number
    rows = await session.execute(select(*columns).where(CommandRow.decided_at.is_(None), is_due).distinct().limit(limit))
    return [(repository_id, pull_number) for repository_id, pull_number in rows]


def stale(now: datetime, keep: timedelta) -> ColumnElement[bool]:
    """Attempts whose checkpoints can be dropped: not while a fork's are kept, as a fork uses its source's file contents."""
    fork = aliased(AttemptRow)
    is_used = select(fork.id).where(fork.forked_from == AttemptRow.id, fork.forgotten.is_(False)).exists()
    # The last condition follows from the one before it, and the index covers it.
    is_over = and_(AttemptRow.told.is_(True), AttemptRow.ended_at <= now - keep, AttemptRow.created_at <= now - keep)
    return and_(is_over, AttemptRow.forgotten.is_(False), ~is_used)


def is_named(repository: str) -> ColumnElement[bool]:
    """A repository by its full name, in any case."""
    return RepositoryRow.full_name.ilike(_escaped(repository), escape="\\")


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
