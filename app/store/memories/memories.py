"""What later attempts of a repository can learn from earlier ones: `agent.contract.memory.Memory` in the database.

Its content comes from hostile sources (code, logs, models): it never leaves its repository and is treated as data.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

import structlog
from sqlalchemy import delete, select
from sqlalchemy.ext.asyncio import AsyncSession

from agent.contract.memory import Recollection
from agent.contract.outcome import Outcome
from agent.models.values import ModelError
from app.clock import Clock
from app.store.database.database import Database
from app.store.database.retries import retried
from app.store.memories.search import Search, Vector, packed, words_of
from app.store.models import AttemptRow, MemoryRow, PullRequestRow, RepositoryRow
from app.store.queries import escape_like

SIMILAR = 0.5  # minimum similarity of words (Dice coefficient) of two failures
NEAR = 0.25  # maximum cosine distance of their vectors
_CANDIDATES = 20  # of either search
_RETRY_SECONDS = 30.0  # to retry an unavailable database
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Embedder:
    """A model that turns texts into vectors. `embed` raises `agent.models.values.ModelError`."""

    name: str  # of the model; vectors of different models are not compared
    embed: Callable[[Sequence[str]], Awaitable[list[list[float]]]]


@dataclass(frozen=True, slots=True)
class StoredMemory:
    """One memory in a list for people."""

    id: int
    repository: str  # full name
    recollection: Recollection
    created_at: datetime


@dataclass(frozen=True, slots=True)
class RepositoryMemory:
    """The memory of one repository, searched by words, and by vectors if there is an embedding model."""

    database: Database
    clock: Clock
    search: Search
    repository_id: int
    embedder: Embedder | None = None

    async def recall(self, signature: str, most: int = 3) -> tuple[Recollection, ...]:
        """The memories of the most similar failures, best first.

        Merges both searches by reciprocal rank fusion (Cormack et al., 2009).
        """
        vector = await self._vector(signature)
        return await retried(lambda: self._recall(signature, vector, most), _RETRY_SECONDS)

    async def _recall(self, signature: str, vector: Vector | None, most: int) -> tuple[Recollection, ...]:
        async with self.database.read() as session:
            by_words = await self.search.by_words(session, self.repository_id, signature, _CANDIDATES)
            by_vector = []
            if vector is not None:
                by_vector = await self.search.by_vector(session, self.repository_id, vector, _CANDIDATES, NEAR)
            rows = {row.id: row for row in await _rows(session, {*by_words, *by_vector})}
            by_words = [id_ for id_ in by_words if similarity(signature, rows[id_].signature) >= SIMILAR]
            best = sorted({*by_words, *by_vector}, key=lambda id_: (-_fused(id_, by_words, by_vector), -id_))[:most]
            closed = await _closed(session, [rows[id_].attempt_id for id_ in best])
        return tuple(_recollection(rows[id_], closed=rows[id_].attempt_id in closed) for id_ in best)

    async def keep(self, recollection: Recollection) -> None:
        """Store one; replaces an earlier one of the same attempt."""
        vector = await self._vector(recollection.signature)
        await retried(lambda: self._keep(recollection, vector), _RETRY_SECONDS)

    async def _keep(self, recollection: Recollection, vector: Vector | None) -> None:
        async with self.database.write() as session:
            row = await session.scalar(select(MemoryRow).where(MemoryRow.attempt_id == recollection.attempt))
            if row is None:
                row = MemoryRow(attempt_id=recollection.attempt, repository_id=self.repository_id)
                session.add(row)
            row.signature, row.outcome = _clean(recollection.signature), recollection.outcome
            row.lessons = [_clean(lesson) for lesson in recollection.lessons]
            row.title, row.diff = _clean(recollection.title), _clean(recollection.diff)
            row.embedding, row.embedded_by = (vector.content, vector.model) if vector is not None else (None, None)
            row.created_at = self.clock.now()
            await session.flush()
            await self.search.index(session, row.id, row.signature)

    async def _vector(self, signature: str) -> Vector | None:
        """None without a model, or if it does not answer."""
        if self.embedder is None:
            return None
        try:
            (vector,) = await self.embedder.embed([signature])
        except ModelError as error:
            _log.warning("embedding failed; searching the memory by words only", why=str(error))
            return None
        return Vector(self.embedder.name, packed(vector))


def similarity(one: str, other: str) -> float:
    """Dice coefficient of the words of two signatures, 0..1."""
    mine, theirs = set(words_of(one)), set(words_of(other))
    return 2 * len(mine & theirs) / (len(mine) + len(theirs)) if mine or theirs else 0.0


async def list_memories(session: AsyncSession, repository: str | None, limit: int) -> list[StoredMemory]:
    """Newest first. `repository` is a full name, in any case."""
    query = select(MemoryRow, RepositoryRow.full_name).join(RepositoryRow, RepositoryRow.id == MemoryRow.repository_id)
    if repository is not None:
        query = query.where(RepositoryRow.full_name.ilike(escape_like(repository), escape="\\"))
    rows = await session.execute(query.order_by(MemoryRow.created_at.desc(), MemoryRow.id.desc()).limit(limit))
    return [StoredMemory(row.id, name, _recollection(row, closed=False), row.created_at) for row, name in rows]


async def forget(session: AsyncSession, search: Search, *, memory_id: int | None = None, repository: str | None = None) -> int:
    """Drop one memory, or all of a repository (full name, in any case); returns how many."""
    if memory_id is None and repository is None:
        raise ValueError("name a memory or a repository")
    query = select(MemoryRow.id).join(RepositoryRow, RepositoryRow.id == MemoryRow.repository_id)
    if memory_id is not None:
        query = query.where(MemoryRow.id == memory_id)
    if repository is not None:
        query = query.where(RepositoryRow.full_name.ilike(escape_like(repository), escape="\\"))
    found = list(await session.scalars(query))
    await search.drop(session, found)
    for id_ in found:
        await session.execute(delete(MemoryRow).where(MemoryRow.id == id_))
    return len(found)


def _fused(id_: int, *rankings: Sequence[int]) -> float:
    return sum(1 / (60 + ranking.index(id_)) for ranking in rankings if id_ in ranking)


async def _rows(session: AsyncSession, ids: set[int]) -> Sequence[MemoryRow]:
    return (await session.scalars(select(MemoryRow).where(MemoryRow.id.in_(ids)))).all()


async def _closed(session: AsyncSession, attempts: list[str]) -> set[str]:
    """The attempts whose pull request was closed unmerged."""
    query = select(AttemptRow.id).join(PullRequestRow, PullRequestRow.id == AttemptRow.pull_request_id)
    return set(await session.scalars(query.where(AttemptRow.id.in_(attempts), PullRequestRow.state == "closed")))


def _recollection(row: MemoryRow, *, closed: bool) -> Recollection:
    """Leaves out a rejected repair, but keeps the lessons of its attempt."""
    outcome = f"{Outcome(row.outcome).value}, but its pull request was closed unmerged" if closed else row.outcome
    title, diff = ("", "") if closed else (row.title, row.diff)
    return Recollection(row.attempt_id, row.signature, outcome, tuple(row.lessons), title, diff)


def _clean(text: str) -> str:
    return _CONTROL.sub("", text)
