"""The store: attempts and their leases, timelines, blobs, memories."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator, Collection
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from math import inf

from sqlalchemy import delete, func, select, update
from sqlalchemy.exc import IntegrityError

from agent.contract.blobs import BlobMissing
from agent.contract.outcome import Outcome
from app import private_files
from app.clock import Clock
from app.settings import PREFIX, Settings, SettingsError
from app.store import figures, memories, queries
from app.store.database.address import NoDatabase, StoreError
from app.store.database.database import Database
from app.store.database.retries import retried
from app.store.figures import Figures
from app.store.leases import changes
from app.store.leases.changes import Fork
from app.store.leases.claims import Terms
from app.store.leases.leases import Lease, NotificationLease, open_lease, open_notification
from app.store.leases.quotas import Allowance, Limit, Quota, Quotas, Use, used_today
from app.store.memories import Embedder, RepositoryMemory, StoredMemory
from app.store.models import AttemptRow, BlobRow, DeliveryRow, PullRequestRow, RepositoryRow, RerunRow
from app.store.queries import Queries

_RETRY_SECONDS = 30.0  # to retry an unavailable database; the attempt's lease may end sooner
_PAGE_READERS = 4  # concurrent reads for pages, of a process's ten connections
_MAX_RACES = 5  # lost races for an attempt's number
_FRESH = timedelta(minutes=10)  # content stored again within this time keeps its timestamp


class Blobs:
    """File contents by SHA-256 (hex), available to every worker."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def put(self, content: bytes) -> str:
        """Store the content and return its hash; equal contents are stored once."""
        return await retried(lambda: self._put(content), _RETRY_SECONDS)

    async def get(self, sha256: str) -> bytes:
        """Raises `BlobMissing`."""
        return await retried(lambda: self._get(sha256), _RETRY_SECONDS)

    async def _put(self, content: bytes) -> str:
        sha256 = hashlib.sha256(content).hexdigest()
        async with self._database.read() as session:
            known = await session.scalar(select(BlobRow.created_at).where(BlobRow.sha256 == sha256))
        now = self._clock.now()
        if known is None:
            with contextlib.suppress(IntegrityError):  # stored concurrently
                async with self._database.write() as session:
                    session.add(BlobRow(sha256=sha256, content=content, created_at=now))
        elif known < now - _FRESH:
            async with self._database.write() as session:
                await session.execute(update(BlobRow).where(BlobRow.sha256 == sha256).values(created_at=now))
        return sha256

    async def _get(self, sha256: str) -> bytes:
        async with self._database.read() as session:
            row = await session.get(BlobRow, sha256)
            if row is None:
                raise BlobMissing(sha256)
            return row.content


class Store(Queries):
    """Access to everything that is stored; opened by `open_store`."""

    def __init__(self, database: Database, clock: Clock, terms: Terms) -> None:
        super().__init__(database)
        self.clock = clock
        self.blobs = Blobs(database, clock)
        self._terms = terms

    def lease(self, attempt_id: str, worker: str) -> AbstractAsyncContextManager[Lease]:
        """Claim an attempt and keep its lease alive for the block; see `leases.leases.open_lease`."""
        return open_lease(self.database, self.clock, self._terms, attempt_id, worker)

    def notification(self, attempt_id: str, worker: str) -> AbstractAsyncContextManager[NotificationLease]:
        """Claim the report of an ended attempt's outcome; see `leases.leases.open_notification`."""
        return open_notification(self.database, self.clock, self._terms, attempt_id, worker)

    @property
    def quotas(self) -> Quotas:
        """The operator's quotas, for all attempts of a day."""
        return self._terms.quotas

    async def quotas_used(self) -> list[Use]:
        """What of them is used today; see `leases.quotas.used_today`."""
        async with self.database.read() as session:
            return await used_today(session, self.quotas, self.clock.now())

    def for_pages(self) -> Store:
        """The same store for pages, with bounded concurrency, so that webhooks find free connections."""
        return Store(self.database.for_pages(_PAGE_READERS), self.clock, self._terms)

    async def figures(self) -> Figures:
        """Totals of all attempts and deliveries. Reads every attempt, so it is too slow to run for each request."""
        async with self.database.read() as session:
            return await figures.read(session, self.clock.now())

    async def known_deliveries(self, guids: Collection[str]) -> set[str]:
        """Those of the GUIDs that were handled."""
        async with self.database.read() as session:
            return set(await session.scalars(select(DeliveryRow.guid).where(DeliveryRow.guid.in_(guids))))

    async def due(self) -> list[str]:
        """Ids of attempts that need a worker: to run, to report an outcome, or to drop old checkpoints. Oldest first."""
        async with self.database.read() as session:
            return await queries.due(session, self.clock.now(), self._terms.keep)

    async def pulls_with_commands(self) -> list[tuple[int, int]]:
        """Repository id and number of each pull request with a command to be decided."""
        async with self.database.read() as session:
            return await queries.pulls_with_commands(session, self.clock.now())

    async def reply(self, attempt_id: str, approved: bool, why: str = "") -> str | None:
        """Answer an attempt that waits for a person, and queue it again; returns a sentence if that is not possible."""
        async with self.database.write() as session:
            return await changes.reply(session, attempt_id, approved, why, self.clock.now())

    async def claim_rerun(self, attempt_id: str, repository_id: int, run_id: int) -> bool:
        """Record that this run is about to be rerun; False if it already was."""
        row = RerunRow(repository_id=repository_id, run_id=run_id, attempt_id=attempt_id, created_at=self.clock.now())
        with contextlib.suppress(IntegrityError):
            async with self.database.write() as session:
                session.add(row)
            return True
        return False

    async def record_pull_request_state(self, repository_id: int, number: int, state: str) -> None:
        """Record that one of our pull requests is open, closed or merged, as GitHub says."""
        which = (PullRequestRow.repository_id == repository_id, PullRequestRow.number == number)
        async with self.database.write() as session:
            await session.execute(update(PullRequestRow).where(*which).values(state=state))

    async def record_outdated(self, attempt_id: str) -> None:
        """Record that GitHub shows that nothing is left to do after the attempt."""
        async with self.database.write() as session:
            which = AttemptRow.id == attempt_id
            await session.execute(update(AttemptRow).where(which).values(outdated_at=self.clock.now()))

    async def record_suites_stopped(self, repository_id: int) -> None:
        """Record that GitHub was asked to make no check suite of ours for every push to the repository."""
        async with self.database.write() as session:
            which = RepositoryRow.id == repository_id
            await session.execute(update(RepositoryRow).where(which).values(suites_stopped_at=self.clock.now()))

    async def supersede(self, attempt_id: str, why: str) -> None:
        """End a waiting attempt whose branch has moved on, as GitHub shows already, or else have its end reported."""
        now = self.clock.now()
        async with self.database.write() as session:
            row = await session.get_one(AttemptRow, attempt_id, with_for_update=True)
            if row.status == "waiting":
                await changes.end(session, row, changes.ended(Outcome.SUPERSEDED, why), now, reported=True)
            else:  # a person has just answered
                await changes.cancel(session, row, Outcome.SUPERSEDED, why, now)

    async def is_stale(self, attempt_id: str) -> bool:
        """Whether the attempt is old enough for its checkpoints to be dropped."""
        async with self.database.read() as session:
            stale = queries.stale(self.clock.now(), self._terms.keep)
            return await session.scalar(select(AttemptRow.id).where(AttemptRow.id == attempt_id, stale)) is not None

    async def forgotten(self, attempt_id: str) -> None:
        """Record that the attempt's checkpoints are gone, and drop blobs last stored before the oldest remaining attempt."""
        async with self.database.write() as session:
            (await session.get_one(AttemptRow, attempt_id)).forgotten = True
            await session.flush()
            oldest = await session.scalar(select(func.min(AttemptRow.created_at)).where(AttemptRow.forgotten.is_(False)))
            since = (oldest or self.clock.now() - self._terms.keep) - _FRESH
            await session.execute(delete(BlobRow).where(BlobRow.created_at < since))

    def memory(self, repository_id: int, embedder: Embedder | None = None) -> RepositoryMemory:
        """The memory of one repository."""
        return RepositoryMemory(self.database, self.clock, repository_id, embedder)

    async def memories(self, *, repository: str | None = None, limit: int = 50) -> list[StoredMemory]:
        """Newest first. `repository` is a full name, in any case."""
        async with self.database.read() as session:
            return await memories.list_memories(session, repository, limit)

    async def forget_memories(self, *, memory_id: int | None = None, repository: str | None = None) -> int:
        """Delete one memory, or all of a repository; returns how many were deleted."""
        async with self.database.write() as session:
            return await memories.forget(session, memory_id=memory_id, repository=repository)

    async def fork(self, fork: Fork) -> None:
        """Queue a fork whose checkpoints exist already. Raises `StoreError`."""
        for _ in range(_MAX_RACES):
            with contextlib.suppress(IntegrityError):  # another attempt took that number: try the next
                async with self.database.write() as session:
                    await changes.fork(session, fork, self.clock.now())
                return
        raise StoreError("other attempts of this commit are being created at the same time; try again")


def terms_of(settings: Settings) -> Terms:
    # The budget ends an attempt; a try that exceeds it by this much is broken.
    longest = settings.max_seconds * 1.5 + 600
    return Terms(
        settings.lease_seconds,
        longest,
        settings.max_tries,
        keep=timedelta(days=settings.keep_days),
        quotas=_quotas_of(settings),
        most=Allowance(settings.max_tokens, settings.max_cost or inf),
    )


def _quotas_of(settings: Settings) -> Quotas:
    def quota(whose: str) -> Quota:
        names = [f"{whose}{what}_per_day" for what in ("attempts", "tokens", "cost")]
        return Quota(*(Limit(getattr(settings, name), f"{PREFIX}{name.upper()}") for name in names))

    return Quotas(quota("repository_"), quota("person_"), quota(""))


@contextlib.asynccontextmanager
async def open_store(settings: Settings, clock: Clock, *, migrate: bool = True) -> AsyncIterator[Store]:
    """Open the database, migrate it, and close it at the end. Raises `StoreError`.

    Commands that inspect a service or record decisions pass `migrate=False`: migrating would keep an older service from
    starting again. Then nothing is created, and a missing database raises `SettingsError`.
    """
    try:
        if migrate:
            await asyncio.to_thread(private_files.make_folder, settings.data_dir.resolve())
        database = await Database.open(settings.database, migrate=migrate)
    except OSError as error:
        raise SettingsError(f"{PREFIX}DATA_DIR: the folder cannot be used: {error}") from error
    except NoDatabase as error:
        raise SettingsError(str(error)) from error
    try:
        yield Store(database, clock, terms_of(settings))
    finally:
        await database.close()
