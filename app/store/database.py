"""The connection to the database: opening, migrating, transactions. Knows no table.

SQLite runs in WAL mode; its write transactions begin as writers (`BEGIN IMMEDIATE`), because a reader that turns writer
fails at once instead of waiting.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, event, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, OperationalError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_sessionmaker, create_async_engine

_BUSY_SECONDS = 5.0  # GitHub hangs up on a webhook after ten
_OPENING_SECONDS = 30.0
_OPENING_PAUSE = 0.1
_MIGRATION_LOCK = 0x5E1F_4EA1  # any number, the same in every process
_MIGRATIONS = Path(__file__).parent / "migrations"


class StoreError(Exception):
    """The database cannot be used; the message says why and what to do."""


class Database:
    """An open database at the newest migration. Close it: each connection of SQLite is a thread."""

    def __init__(self, engine: AsyncEngine) -> None:
        self.engine = engine
        self._writers = async_sessionmaker(engine, expire_on_commit=False)
        self._readers = async_sessionmaker(engine.execution_options(selfheal_reads=True), expire_on_commit=False)

    @classmethod
    async def open(cls, url: str) -> Database:
        """Connect and migrate. Raises `StoreError`."""
        try:
            engine = _engine(url)
        except (ArgumentError, ModuleNotFoundError) as error:
            raise StoreError(f"SELFHEAL_DATABASE_URL: {error}") from error
        except OSError as error:
            raise StoreError(f"the database cannot be opened: {error}") from error
        try:
            await _migrated(engine)
        except (SQLAlchemyError, OSError) as error:
            await engine.dispose()
            why = str(error).partition("\n")[0]  # SQLAlchemy adds the statement and where to read more
            raise StoreError(f"the database cannot be opened: {why}") from error
        except BaseException:
            await engine.dispose()
            raise
        return cls(engine)

    async def close(self) -> None:
        await self.engine.dispose()

    @asynccontextmanager
    async def write(self) -> AsyncIterator[AsyncSession]:
        """One transaction that may write; commits at the end of the block."""
        async with self._writers.begin() as session:
            yield session

    @asynccontextmanager
    async def read(self) -> AsyncIterator[AsyncSession]:
        """One transaction that only reads."""
        async with self._readers.begin() as session:
            yield session


def _engine(url: str) -> AsyncEngine:
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite":
        return create_async_engine(parsed, pool_pre_ping=True)
    if parsed.database and parsed.database != ":memory:":
        Path(parsed.database).parent.mkdir(parents=True, exist_ok=True)
    engine = create_async_engine(parsed, connect_args={"timeout": _BUSY_SECONDS})

    @event.listens_for(engine.sync_engine, "connect")
    def prepare(connection: Any, _: object) -> None:
        connection.isolation_level = None  # the driver's own BEGIN comes too late, and not before DDL
        cursor = connection.cursor()
        cursor.execute("PRAGMA journal_mode=WAL")
        cursor.execute("PRAGMA foreign_keys=ON")
        cursor.close()

    @event.listens_for(engine.sync_engine, "begin")
    def begin(connection: Connection) -> None:
        reads = connection.get_execution_options().get("selfheal_reads", False)
        connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")

    return engine


async def _migrated(engine: AsyncEngine) -> None:
    """Bring the tables up to date. Processes that start together wait for each other: SQLite does not wait by itself when a
    file is put into WAL mode, and for no longer than for any other lock while one of them makes the tables.
    """
    deadline = time.monotonic() + _OPENING_SECONDS
    while True:
        try:
            async with engine.begin() as connection:
                return await connection.run_sync(_migrate)
        except OperationalError as error:
            if "locked" not in str(error.orig) or time.monotonic() > deadline:
                raise
        await asyncio.sleep(_OPENING_PAUSE)


def _migrate(connection: Connection) -> None:
    """Bring the tables up to date inside the caller's transaction, one process at a time."""
    from alembic import command
    from alembic.util import CommandError

    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _MIGRATION_LOCK})
    try:
        command.upgrade(alembic_config(connection), "head")
    except CommandError as error:
        raise StoreError(f"the database is from another version of Selfheal: {error}") from error


def alembic_config(connection: Connection | None = None) -> Any:
    """Alembic's configuration, without a file, so that it works from an installed wheel."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config
