"""Finds similar memories: each database's SQL for it behind one protocol.

SQLite: FTS5 for words, sqlite-vec for vectors. PostgreSQL: its full-text search; vectors are compared in Python, as a plain
PostgreSQL lacks pgvector.
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
    """A stored embedding: float32, little-endian. Only vectors of the same model are compared."""

    model: str
    content: bytes


class Search(Protocol):
    """Full-text and vector search in one database, inside the caller's transaction."""

    async def index(self, session: AsyncSession, memory_id: int, words: str) -> None:
        """Index a memory's words, replacing earlier ones."""

    async def drop(self, session: AsyncSession, memory_ids: Sequence[int]) -> None:
        """Remove memories from the word index."""

    async def by_words(self, session: AsyncSession, repository_id: int, words: str, most: int) -> list[int]:
        """Ids of the repository's memories that share words with these; rare and many shared words first."""

    async def by_vector(self, session: AsyncSession, repository_id: int, vector: Vector, most: int, within: float) -> list[int]:
        """Ids of the repository's memories within that cosine distance (0..2), nearest first."""


class SqliteSearch:
    """FTS5 is part of SQLite; the extension sqlite-vec is loaded when vectors are compared."""

    async def index(self, session: AsyncSession, memory_id: int, words: str) -> None:
        await self.drop(session, [memory_id])
        await session.execute(
            text("INSERT INTO memory_words (rowid, signature) VALUES (:id, :words)"), {"id": memory_id, "words": words}
        )

    async def drop(self, session: AsyncSession, memory_ids: Sequence[int]) -> None:
        for memory_id in memory_ids:
            await session.execute(text("DELETE FROM memory_words WHERE rowid = :id"), {"id": memory_id})

    async def by_words(self, session: AsyncSession, repository_id: int, words: str, most: int) -> list[int]:
        # Quoted, so that words are not read as FTS5 syntax (NEAR, *, column names).
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
        await _load_distance(session)
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
    """Full-text search over our own words (`words_of`): PostgreSQL's parser mistakes test names for hosts and paths."""

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
            # Rare words weigh more, which PostgreSQL's own ranking does not support.
            text(
                "WITH found AS ("
                "SELECT memories.id, lexeme FROM memories JOIN memory_words USING (id), unnest(memory_words.words) "
                "WHERE memories.repository_id = :repository AND memory_words.words @@ CAST(:query AS tsquery) "
                "AND lexeme = ANY(:wanted)"
                "), weights AS (SELECT lexeme, 1.0 / count(*) AS weight FROM found GROUP BY lexeme) "
                "SELECT id FROM found JOIN weights USING (lexeme) GROUP BY id ORDER BY sum(weight) DESC, id DESC LIMIT :most"
            ),
            # Quoted; no word contains a quote.
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


async def _load_distance(session: AsyncSession) -> None:
    """Load `vec_distance_cosine` into this session's connection; may be repeated.

    Pythons built without loadable extensions (pyenv's, Apple's) get a slower one in Python.
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
    """Cosine distance of two float32 vectors, little-endian: 0 for the same direction, 2 for opposite ones."""
    mine, theirs = numbers(one), numbers(other)
    lengths = math.sqrt(sum(x * x for x in mine)) * math.sqrt(sum(x * x for x in theirs))
    return 1.0 - sum(x * y for x, y in zip(mine, theirs, strict=True)) / lengths if lengths else 1.0


def packed(vector: Sequence[float]) -> bytes:
    return struct.pack(f"<{len(vector)}f", *vector)


def numbers(content: bytes) -> tuple[float, ...]:
    return struct.unpack(f"<{len(content) // 4}f", content)


def words_of(signature: str) -> list[str]:
    """The words by which failures are compared: lower case, without those that every failing test has."""
    return [word for word in re.findall(r"\w+", signature.lower()) if word not in _FRAME]


def search_of(dialect: str) -> Search:
    return PostgresSearch() if dialect == "postgresql" else SqliteSearch()
