"""The lessons of a repository's earlier attempts for later ones: `agent.contract.memory.Memory` in the database.

Its content comes from hostile sources (code, logs, models): it never leaves its repository and is treated as data. Signatures
are short and a repository has few of them, so they are compared here, without a search in the database.
"""

from __future__ import annotations

import asyncio
import math
import re
import struct
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import structlog
from sqlalchemy import Row, delete, select
from sqlalchemy.ext.asyncio import AsyncSession

from agent.contract.memory import SIMILAR, Recollection, likeness, words_of
from agent.contract.outcome import Outcome
from agent.models.values import ModelError
from app.clock import Clock
from app.store.database.database import Database
from app.store.database.retries import retried
from app.store.models import AttemptRow, MemoryRow, PullRequestRow, RepositoryRow
from app.store.queries import is_named

NEAR = 0.25  # maximum cosine distance of their vectors
_COMPARED = 2_000  # newest memories of a repository
_CANDIDATES = 20  # best candidates of each comparison
_RETRY_SECONDS = 30.0  # to retry an unavailable database
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Vector:
    """A stored embedding: float32, little-endian. Only vectors of the same model are compared."""

    model: str
    content: bytes


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
    """The memory of one repository, compared by words, and by vectors if there is an embedding model."""

    database: Database
    clock: Clock
    repository_id: int
    embedder: Embedder | None = None

    async def recall(self, signature: str, most: int = 3) -> tuple[Recollection, ...]:
        """The memories of the most similar failures, best first.

        Merges both rankings by reciprocal rank fusion (Cormack et al., 2009).
        """
        vector = await self._vector(signature)
        return await retried(lambda: self._recall(signature, vector, most), _RETRY_SECONDS)

    async def _recall(self, signature: str, vector: Vector | None, most: int) -> tuple[Recollection, ...]:
        async with self.database.read() as session:
            columns = (MemoryRow.id, MemoryRow.signature, MemoryRow.embedding, MemoryRow.embedded_by)
            query = select(*columns).where(MemoryRow.repository_id == self.repository_id)
            known = (await session.execute(query.order_by(MemoryRow.id.desc()).limit(_COMPARED))).all()
            best = (await asyncio.to_thread(_ranked, known, signature, vector))[:most]
            rows = {row.id: row for row in await session.scalars(select(MemoryRow).where(MemoryRow.id.in_(best)))}
            closed = await _closed(session, [rows[id_].attempt_id for id_ in best])
        return tuple(_recollection(rows[id_], closed=rows[id_].attempt_id in closed) for id_ in best)

    async def keep(self, recollection: Recollection) -> None:
        """Store a memory; replaces an earlier one from the same attempt."""
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

    async def _vector(self, signature: str) -> Vector | None:
        """The text's embedding; None without a model, or if it does not answer."""
        if self.embedder is None:
            return None
        try:
            (vector,) = await self.embedder.embed([signature])
        except ModelError as error:
            _log.warning("embedding failed; comparing memories by words only", why=str(error))
            return None
        return Vector(self.embedder.name, packed(vector))


async def list_memories(session: AsyncSession, repository: str | None, limit: int) -> list[StoredMemory]:
    """Newest first. `repository` is a full name, in any case."""
    query = select(MemoryRow, RepositoryRow.full_name).join(RepositoryRow, RepositoryRow.id == MemoryRow.repository_id)
    if repository is not None:
        query = query.where(is_named(repository))
    rows = await session.execute(query.order_by(MemoryRow.created_at.desc(), MemoryRow.id.desc()).limit(limit))
    return [StoredMemory(row.id, name, _recollection(row, closed=False), row.created_at) for row, name in rows]


async def forget(session: AsyncSession, *, memory_id: int | None = None, repository: str | None = None) -> int:
    """Delete one memory, or all of a repository (full name, in any case); returns how many were deleted."""
    if memory_id is None and repository is None:
        raise ValueError("name a memory or a repository")
    query = select(MemoryRow.id).join(RepositoryRow, RepositoryRow.id == MemoryRow.repository_id)
    if memory_id is not None:
        query = query.where(MemoryRow.id == memory_id)
    if repository is not None:
        query = query.where(is_named(repository))
    found = list(await session.scalars(query))
    await session.execute(delete(MemoryRow).where(MemoryRow.id.in_(found)))
    return len(found)


def _ranked(known: Sequence[Row[Any]], signature: str, vector: Vector | None) -> list[int]:
    """Ids of the memories that are similar by words or near by vector, best first. Slow, so it runs in a thread."""
    wanted = words_of(signature)
    similar = ((likeness(wanted, words_of(row.signature)), row.id) for row in known)
    by_words = [id_ for _, id_ in sorted((each for each in similar if each[0] >= SIMILAR), reverse=True)[:_CANDIDATES]]
    by_vector: list[int] = []
    if vector is not None:
        size = len(vector.content)
        alike = [row for row in known if row.embedded_by == vector.model and len(row.embedding) == size]
        distances = ((cosine_distance(row.embedding, vector.content), -row.id) for row in alike)
        by_vector = [-id_ for _, id_ in sorted(each for each in distances if each[0] <= NEAR)[:_CANDIDATES]]

    def fused(id_: int) -> float:
        return sum(1 / (60 + ranking.index(id_)) for ranking in (by_words, by_vector) if id_ in ranking)

    return sorted({*by_words, *by_vector}, key=lambda id_: (-fused(id_), -id_))


def cosine_distance(one: bytes, other: bytes) -> float:
    """Cosine distance of two float32 vectors, little-endian: 0 for the same direction, 2 for opposite ones."""
    mine, theirs = (struct.unpack(f"<{len(vector) // 4}f", vector) for vector in (one, other))
    lengths = math.sqrt(sum(x * x for x in mine)) * math.sqrt(sum(x * x for x in theirs))
    return 1.0 - sum(x * y for x, y in zip(mine, theirs, strict=True)) / lengths if lengths else 1.0


def packed(vector: Sequence[float]) -> bytes:
    return struct.pack(f"<{len(vector)}f", *vector)


async def _closed(session: AsyncSession, attempts: list[str]) -> set[str]:
    """The attempts whose pull request was closed unmerged."""
    query = select(AttemptRow.id).join(PullRequestRow, PullRequestRow.id == AttemptRow.pull_request_id)
    return set(await session.scalars(query.where(AttemptRow.id.in_(attempts), PullRequestRow.state == "closed")))


def _recollection(row: MemoryRow, *, closed: bool) -> Recollection:
    """The memory for later attempts: without the repair if that was rejected, but with the attempt's lessons."""
    outcome = f"{Outcome(row.outcome).value}, but its pull request was closed unmerged" if closed else row.outcome
    title, diff = ("", "") if closed else (row.title, row.diff)
    return Recollection(row.attempt_id, row.signature, outcome, tuple(row.lessons), title, diff)


def _clean(text: str) -> str:
    return _CONTROL.sub("", text)
