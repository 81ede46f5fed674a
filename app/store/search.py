"""Finding memories that look alike: the SQL that each database has for it, behind one small protocol.

SQLite: FTS5 for words, sqlite-vec for vectors. Another database gets a class of its own here.
"""

from __future__ import annotations

import math
import re
import sqlite3
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

_MOST_WORDS = 200  # of a query
_FRAME = frozenset({"assert", "assertionerror", "error", "py", "src", "test", "tests"})


@dataclass(frozen=True, slots=True)
class Vector:
    """An embedding as it is kept: float32, little-endian. Only vectors of the same model are compared."""

    model: str
    content: bytes


class Search(Protocol):
    """The full-text and vector search of one database. Each call works inside the caller's transaction."""

    async def index(self, session: AsyncSession, memory_id: int, words: str) -> None:
        """Make a memory findable by its words; again replaces them."""

    async def drop(self, session: AsyncSession, memory_ids: Sequence[int]) -> None:
        """Make memories unfindable by words."""

    async def by_words(self, session: AsyncSession, repository_id: int, words: str, most: int) -> list[int]:
        """Ids of the repository's memories that share words with these, the rarest and most first."""

    async def by_vector(self, session: AsyncSession, repository_id: int, vector: Vector, most: int, within: float) -> list[int]:
        """Ids of the repository's memories whose vectors are `within` that cosine distance (0..2), the nearest first."""


class SqliteSearch:
    """FTS5 is part of SQLite; sqlite-vec is a loadable extension, loaded into a connection when vectors are compared."""

    async def index(self, session: AsyncSession, memory_id: int, words: str) -> None:
        await self.drop(session, [memory_id])
        await session.execute(
            text("INSERT INTO memory_words (rowid, signature) VALUES (:id, :words)"), {"id": memory_id, "words": words}
        )

    async def drop(self, session: AsyncSession, memory_ids: Sequence[int]) -> None:
        for memory_id in memory_ids:
            await session.execute(text("DELETE FROM memory_words WHERE rowid = :id"), {"id": memory_id})

    async def by_words(self, session: AsyncSession, repository_id: int, words: str, most: int) -> list[int]:
        # Each word quoted: FTS5's own syntax (NEAR, *, column names) has no say in what failures look like.
        wanted = " OR ".join(f'"{word}"' for word in list(dict.fromkeys(words_of(words)))[:_MOST_WORDS])
        if not wanted:
            return []
        rows = await session.execute(
            text(
                "SELECT memories.id FROM memory_words JOIN memories ON memories.id = memory_words.rowid "
                "WHERE memory_words MATCH :wanted AND memories.repository_id = :repository "
                "ORDER BY bm25(memory_words), memories.id DESC LIMIT :most"
            ),
            {"wanted": wanted, "repository": repository_id, "most": most},
        )
        return [row.id for row in rows]

    async def by_vector(self, session: AsyncSession, repository_id: int, vector: Vector, most: int, within: float) -> list[int]:
        await _know_distance(session)
        rows = await session.execute(
            text(
                "SELECT id, vec_distance_cosine(embedding, :vector) AS distance FROM memories "
                "WHERE repository_id = :repository AND embedded_by = :model AND length(embedding) = :bytes "
                "AND distance <= :within ORDER BY distance, id DESC LIMIT :most"
            ),
            {
                "vector": vector.content,
                "repository": repository_id,
                "model": vector.model,
                "bytes": len(vector.content),
                "within": within,
                "most": most,
            },
        )
        return [row.id for row in rows]


async def _know_distance(session: AsyncSession) -> None:
    """Teach this session's connection `vec_distance_cosine`; again does no harm.

    Pythons that were built without loadable extensions (pyenv's, Apple's) get the same function from us, only slower.
    """
    import sqlite_vec

    raw = await (await session.connection()).get_raw_connection()
    driver = raw.driver_connection
    assert driver is not None
    if not hasattr(sqlite3.Connection, "enable_load_extension"):
        await driver.create_function("vec_distance_cosine", 2, cosine_distance, deterministic=True)
        return
    await driver.enable_load_extension(True)
    await driver.load_extension(sqlite_vec.loadable_path())
    await driver.enable_load_extension(False)


def cosine_distance(one: bytes, other: bytes) -> float:
    """Of two vectors of float32, little-endian: 0 where they point alike, 2 where they are opposites."""
    mine, theirs = numbers(one), numbers(other)
    lengths = math.sqrt(sum(x * x for x in mine)) * math.sqrt(sum(x * x for x in theirs))
    return 1.0 - sum(x * y for x, y in zip(mine, theirs, strict=True)) / lengths if lengths else 1.0


def packed(vector: Sequence[float]) -> bytes:
    return struct.pack(f"<{len(vector)}f", *vector)


def numbers(content: bytes) -> tuple[float, ...]:
    return struct.unpack(f"<{len(content) // 4}f", content)


def words_of(signature: str) -> list[str]:
    """The words by which failures are compared: names in lower case, without those that every failing test has."""
    return [word for word in re.findall(r"\w+", signature.lower()) if word not in _FRAME]


def search_of(dialect: str) -> Search | None:
    """The search of a database; None where there is none for it yet."""
    return SqliteSearch() if dialect == "sqlite" else None
