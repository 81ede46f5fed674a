"""Finding memories that look alike: the SQL that each database has for it, behind one small protocol.

SQLite: FTS5 for words, sqlite-vec for vectors. PostgreSQL: its own full-text search; vectors are compared here, as pgvector is
an extension that a plain PostgreSQL does not have.
"""

from __future__ import annotations

import asyncio
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
_KEPT_WORDS, _LONGEST_WORD = 2_000, 100  # of one memory in PostgreSQL, whose index bounds both
_COMPARED = 2_000  # vectors, the newest of a repository
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


class PostgresSearch:
    """Full-text search over our own words (`words_of`): PostgreSQL's parser takes names of tests for hosts and paths."""

    async def index(self, session: AsyncSession, memory_id: int, words: str) -> None:
        kept = [word[:_LONGEST_WORD] for word in dict.fromkeys(words_of(words))][:_KEPT_WORDS]
        await session.execute(
            text(
                "INSERT INTO memory_words (id, words) VALUES (:id, array_to_tsvector(CAST(:words AS text[]))) "
                "ON CONFLICT (id) DO UPDATE SET words = excluded.words"
            ),
            {"id": memory_id, "words": kept},
        )

    async def drop(self, session: AsyncSession, memory_ids: Sequence[int]) -> None:
        await session.execute(text("DELETE FROM memory_words WHERE id = ANY(:ids)"), {"ids": list(memory_ids)})

    async def by_words(self, session: AsyncSession, repository_id: int, words: str, most: int) -> list[int]:
        wanted = [word[:_LONGEST_WORD] for word in dict.fromkeys(words_of(words))][:_MOST_WORDS]
        if not wanted:
            return []
        rows = await session.execute(
            # A word counts the more, the fewer of the memories found have it: PostgreSQL's own rank does not know that.
            text(
                "WITH found AS ("
                "SELECT memories.id, lexeme FROM memories JOIN memory_words USING (id), unnest(memory_words.words) "
                "WHERE memories.repository_id = :repository AND memory_words.words @@ CAST(:query AS tsquery) "
                "AND lexeme = ANY(:wanted)"
                "), weights AS (SELECT lexeme, 1.0 / count(*) AS weight FROM found GROUP BY lexeme) "
                "SELECT id FROM found JOIN weights USING (lexeme) GROUP BY id ORDER BY sum(weight) DESC, id DESC LIMIT :most"
            ),
            # Each word quoted; none has a quote in it.
            {"repository": repository_id, "query": " | ".join(f"'{word}'" for word in wanted), "wanted": wanted, "most": most},
        )
        return [row.id for row in rows]

    async def by_vector(self, session: AsyncSession, repository_id: int, vector: Vector, most: int, within: float) -> list[int]:
        rows = await session.execute(
            text(
                "SELECT id, embedding FROM memories WHERE repository_id = :repository AND embedded_by = :model "
                "AND octet_length(embedding) = :bytes ORDER BY id DESC LIMIT :compared"
            ),
            {"repository": repository_id, "model": vector.model, "bytes": len(vector.content), "compared": _COMPARED},
        )
        known = [(row.embedding, row.id) for row in rows]
        return await asyncio.to_thread(_nearest, known, vector.content, most, within)


def _nearest(known: Sequence[tuple[bytes, int]], vector: bytes, most: int, within: float) -> list[int]:
    measured = ((cosine_distance(embedding, vector), -id_) for embedding, id_ in known)
    return [-id_ for _, id_ in sorted(each for each in measured if each[0] <= within)[:most]]


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


def search_of(dialect: str) -> Search:
    return PostgresSearch() if dialect == "postgresql" else SqliteSearch()
