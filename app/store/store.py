"""The store as the rest of the service sees it: attempts and their leases, timelines, blobs."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import AsyncIterator, Collection
from contextlib import AbstractAsyncContextManager
from datetime import timedelta

from sqlalchemy import delete, func, select, update
from sqlalchemy.exc import IntegrityError

from agent.blobs import BlobMissing
from agent.contract.outcome import Outcome
from app.clock import Clock
from app.settings import Settings, SettingsError
from app.store import queries
from app.store.database.database import Database, NoDatabase, StoreError
from app.store.database.retries import patiently
from app.store.events import Stored
from app.store.figures import figures
from app.store.figures.figures import Figures
from app.store.leases import decisions as steering
from app.store.leases import endings
from app.store.leases.claims import Terms
from app.store.leases.decisions import Fork
from app.store.leases.leases import Lease, hold
from app.store.leases.notifications import Telling, telling
from app.store.memories import memories
from app.store.memories.memories import Embedder, Kept, RepositoryMemory
from app.store.memories.search import search_of
from app.store.models import AttemptRow, BlobRow, RerunRow
from app.store.values import Attempt, Fate, Mark, Place, Status, Wanted

_PATIENCE = 30.0  # seconds that a database may be away; the attempt's lease may end the wait
_ONLOOKERS = 4  # reads for pages at a time, of the ten connections that a process has
_RACES = 5  # for an attempt's number
_FRESH = timedelta(minutes=10)  # content that was put within is not noted as put again


class Blobs:
    """Contents by their SHA-256 (hex), so that any worker can go on with them."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def put(self, content: bytes) -> str:
        """Keep the content and answer its hash; the same content is kept once."""
        return await patiently(lambda: self._put(content), _PATIENCE)

    async def get(self, sha256: str) -> bytes:
        """Raises `BlobMissing`."""
        return await patiently(lambda: self._get(sha256), _PATIENCE)

    async def _put(self, content: bytes) -> str:
        sha256 = hashlib.sha256(content).hexdigest()
        async with self._database.read() as session:
            known = await session.scalar(select(BlobRow.created_at).where(BlobRow.sha256 == sha256))
        now = self._clock.now()
        if known is None:
            with contextlib.suppress(IntegrityError):  # another one put it just now
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


class Store:
    """Everything that is kept. Made by `open_store`."""

    def __init__(self, database: Database, clock: Clock, terms: Terms) -> None:
        self.database = database
        self.clock = clock
        self.blobs = Blobs(database, clock)
        self._terms = terms

    def lease(self, attempt_id: str, worker: str) -> AbstractAsyncContextManager[Lease]:
        """Claim an attempt and keep it alive for the block; see `app/store/claims.py` and `leases.py` for what it raises."""
        return hold(self.database, self.clock, self._terms, attempt_id, worker)

    def telling(self, attempt_id: str, worker: str) -> AbstractAsyncContextManager[Telling]:
        """Claim the telling of an ended attempt's end for the block; see `app/store/tellings.py` for what it raises."""
        return telling(self.database, self.clock, self._terms, attempt_id, worker)

    def for_onlookers(self) -> Store:
        """The same store for pages: however many are open, they leave connections to webhooks."""
        return Store(self.database.for_onlookers(_ONLOOKERS), self.clock, self._terms)

    async def attempt(self, attempt_id: str) -> Attempt | None:
        async with self.database.read() as session:
            return await queries.read_attempt(session, attempt_id)

    async def find_attempts(self, beginning: str) -> list[Attempt]:
        """The attempt whose id begins so: none, the one, or two of more."""
        async with self.database.read() as session:
            return await queries.find_attempts(session, beginning)

    async def attempts(self, *, repository: str | None = None, status: Status | None = None, limit: int = 50) -> list[Attempt]:
        """Newest first. `repository` is a full name, in any case."""
        async with self.database.read() as session:
            return await queries.list_attempts(session, repository=repository, status=status, limit=limit)

    async def origin(self, attempt_id: str) -> str | None:
        """GUID of the delivery that caused the attempt; None for a fork, and for one that is not known."""
        async with self.database.read() as session:
            return await queries.origin(session, attempt_id)

    async def figures(self) -> Figures:
        """What all attempts and deliveries come to now. Reads every attempt: not for each request."""
        async with self.database.read() as session:
            return await figures.read(session, self.clock.now())

    async def page_of_attempts(self, wanted: Wanted, before: Place | None = None, limit: int = 50) -> list[Attempt]:
        """At most `limit` of them, newest first, those older than the place `before`."""
        async with self.database.read() as session:
            return await queries.page_of_attempts(session, wanted, before, limit)

    async def marks(self, attempt_ids: Collection[str]) -> dict[str, Mark]:
        """How far each of these attempts is, to see cheaply which of them changed."""
        async with self.database.read() as session:
            return await queries.marks(session, attempt_ids)

    async def fates(self, *, repository: str | None = None) -> list[Fate]:
        """How sure the repair of each pull request was, and what became of it."""
        async with self.database.read() as session:
            return await queries.fates(session, repository=repository)

    async def timeline(self, attempt_id: str, after: int = 0, limit: int | None = None) -> list[Stored]:
        """The attempt's events in order, those beyond the sequence number `after`; at most `limit` of them."""
        async with self.database.read() as session:
            return await queries.timeline(session, attempt_id, after, limit)

    async def due(self) -> list[str]:
        """Ids of attempts that wait for a worker, oldest first.

        Also of ended ones that GitHub has not been told of, and of those that are old enough to be forgotten.
        """
        async with self.database.read() as session:
            return await queries.due(session, self.clock.now(), self._terms.keep)

    async def cancel(self, attempt_id: str, outcome: Outcome, reason: str) -> None:
        """End a queued attempt; a running one's worker is told at its next heartbeat. One that has ended stays as it is."""
        async with self.database.write() as session:
            row = await session.get(AttemptRow, attempt_id, with_for_update=True)
            if row is not None:
                await endings.cancel(session, row, outcome, reason, self.clock.now())

    async def reply(self, attempt_id: str, approved: bool, why: str = "") -> str | None:
        """Answer an attempt that waits for a person, and queue it again; else the sentence why that cannot be."""
        async with self.database.write() as session:
            return await steering.reply(session, attempt_id, approved, why, self.clock.now())

    async def claim_rerun(self, attempt_id: str, repository_id: int, run_id: int) -> bool:
        """Note that this run is about to be run again; False where that was noted before, whoever did."""
        row = RerunRow(repository_id=repository_id, run_id=run_id, attempt_id=attempt_id, created_at=self.clock.now())
        with contextlib.suppress(IntegrityError):
            async with self.database.write() as session:
                session.add(row)
            return True
        return False

    async def is_stale(self, attempt_id: str) -> bool:
        """Has it ended so long ago that it is to be forgotten?"""
        async with self.database.read() as session:
            stale = queries.stale(self.clock.now(), self._terms.keep)
            return await session.scalar(select(AttemptRow.id).where(AttemptRow.id == attempt_id, stale)) is not None

    async def forgotten(self, attempt_id: str) -> None:
        """Note that its checkpoints are gone, and drop the contents that only attempts as old as it can have used.

        Contents carry the time at which they were last put, so that what a younger attempt put again stays.
        """
        async with self.database.write() as session:
            (await session.get_one(AttemptRow, attempt_id)).forgotten = True
            await session.flush()
            oldest = await session.scalar(select(func.min(AttemptRow.created_at)).where(AttemptRow.forgotten.is_(False)))
            since = (oldest or self.clock.now() - self._terms.keep) - _FRESH
            await session.execute(delete(BlobRow).where(BlobRow.created_at < since))

    def memory(self, repository_id: int, embedder: Embedder | None = None) -> RepositoryMemory:
        """The memory of one repository."""
        search = search_of(self.database.engine.dialect.name)
        return RepositoryMemory(self.database, self.clock, search, repository_id, embedder)

    async def memories(self, *, repository: str | None = None, limit: int = 50) -> list[Kept]:
        """Newest first. `repository` is a full name, in any case."""
        async with self.database.read() as session:
            return await memories.list_kept(session, repository, limit)

    async def forget_memories(self, *, memory_id: int | None = None, repository: str | None = None) -> int:
        """Drop one memory, or all of a repository; how many there were."""
        search = search_of(self.database.engine.dialect.name)
        async with self.database.write() as session:
            return await memories.forget(session, search, memory_id=memory_id, repository=repository)

    async def fork(self, fork: Fork) -> None:
        """Queue a fork, whose checkpoints are there already. Raises `StoreError`."""
        for _ in range(_RACES):
            with contextlib.suppress(IntegrityError):  # another attempt took that number: count again
                async with self.database.write() as session:
                    await steering.fork(session, fork, self.clock.now())
                return
        raise StoreError("the fork lost too many races against other attempts of its commit; try again")


def terms_of(settings: Settings) -> Terms:
    # The budget ends an attempt; a try that does not even then is broken.
    longest = settings.max_seconds * 1.5 + 600
    return Terms(settings.lease_seconds, longest, settings.max_tries, keep=timedelta(days=settings.keep_days))


@contextlib.asynccontextmanager
async def open_store(settings: Settings, clock: Clock, *, migrate: bool = True) -> AsyncIterator[Store]:
    """Open the database, bring it up to date, close it at the end. Raises `StoreError`.

    Without `migrate`, for who looks at what a service did or steers it: the database may be that of an older service, which
    would not start again on a migrated one. Then nothing is made or changed; raises `SettingsError` where there is none.
    """
    try:
        database = await Database.open(settings.database, migrate=migrate)
    except NoDatabase as error:
        raise SettingsError(str(error)) from error
    try:
        yield Store(database, clock, terms_of(settings))
    finally:
        await database.close()
