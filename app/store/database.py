"""The connection to the database: opening, migrating, transactions. Knows no table.

The room of PostgreSQL's own connections is `app/store/postgres.py`.

SQLite runs in WAL mode; its write transactions begin as writers (`BEGIN IMMEDIATE`), because a reader that turns writer
fails at once instead of waiting.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, event, text
from sqlalchemy.exc import DBAPIError, OperationalError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_sessionmaker, create_async_engine

from app.store.address import SETTING, Postgres, Sqlite, StoreError, read
from app.store.patience import patiently

__all__ = ["Database", "StoreError", "alembic_config"]

_BUSY_SECONDS = 5.0  # GitHub hangs up on a webhook after ten
_OPENING_SECONDS = 30.0
_CLOSE_SECONDS = 10.0
_MIGRATION_LOCK = 0x5E1F_4EA1  # any number, the same in every process
_MIGRATIONS = Path(__file__).parent / "migrations"


class Database:
    """An open database at the newest migration. Close it: each connection of SQLite is a thread."""

    def __init__(self, engine: AsyncEngine, readers: int | None = None) -> None:
        self.engine = engine
        self._gate = asyncio.Semaphore(readers) if readers else nullcontext()
        self._writers = async_sessionmaker(engine, expire_on_commit=False)
        self._readers = async_sessionmaker(engine.execution_options(selfheal_reads=True), expire_on_commit=False)

    @classmethod
    async def open(cls, url: str) -> Database:
        """Connect and migrate. `url` as people write it (`app/store/address.py`). Raises `StoreError`."""
        address = read(url)
        return cls(await (_open_postgres(address) if isinstance(address, Postgres) else _open_sqlite(address)))

    @classmethod
    def connect(cls, url: str) -> Database:
        """As it is, at whichever migration; nothing is asked of it yet. Raises `StoreError` for what is no URL."""
        address = read(url)
        if isinstance(address, Postgres):
            from app.store import postgres

            return cls(postgres.pool(address))
        return cls(_sqlite(address))

    def for_onlookers(self, readers: int) -> Database:
        """The same one for those who only look: at most so many read at a time, so that writers find connections."""
        return Database(self.engine, readers)

    async def close(self) -> None:
        with suppress(TimeoutError):  # a server that does not answer is not waited for: the process is about to end
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self.engine.dispose()

    @asynccontextmanager
    async def write(self) -> AsyncIterator[AsyncSession]:
        """One transaction that may write; commits at the end of the block."""
        async with self._writers.begin() as session:
            yield session

    @asynccontextmanager
    async def read(self) -> AsyncIterator[AsyncSession]:
        """One transaction that only reads."""
        async with self._gate, self._readers.begin() as session:
            yield session


async def _open_sqlite(address: Sqlite) -> AsyncEngine:
    try:
        engine = _sqlite(address)
        await _migrated(engine)
    except (SQLAlchemyError, OSError) as error:
        why = str(error).partition("\n")[0]  # SQLAlchemy adds the statement and where to read more
        raise StoreError(
            f"the database cannot be opened: {why}; {address.path} is what {SETTING} names, by default in the data folder"
        ) from error
    return engine


async def _open_postgres(address: Postgres) -> AsyncEngine:
    # Its driver is loaded only for those who use it.
    import asyncpg

    from app.store import postgres

    migrating = postgres.unhurried(address)
    try:
        await _migrated(migrating)
    except (SQLAlchemyError, asyncpg.PostgresError, asyncpg.InterfaceError, OSError) as error:
        driver = error.orig.__cause__ if isinstance(error, DBAPIError) and error.orig is not None else None
        raise postgres.refusal(address, driver or error) from error
    await migrating.dispose()
    return postgres.pool(address)


async def _migrated(engine: AsyncEngine) -> None:
    """Bring it up to date; an engine that cannot be is disposed of."""

    async def migrate() -> None:
        async with engine.begin() as connection:
            await connection.run_sync(_migrate)

    try:
        if engine.dialect.name == "sqlite":
            # Processes that start together: a file that is put into WAL mode is locked at once, without any waiting.
            await patiently(migrate, _OPENING_SECONDS, passing=_is_locked)
        else:
            await migrate()
    except BaseException:
        await engine.dispose()
        raise


def _is_locked(error: BaseException) -> bool:
    return isinstance(error, OperationalError) and "locked" in str(error.orig)


def _sqlite(address: Sqlite) -> AsyncEngine:
    address.path.parent.mkdir(parents=True, exist_ok=True)
    url = URL.create("sqlite+aiosqlite", database=str(address.path))
    engine = create_async_engine(url, connect_args={"timeout": _BUSY_SECONDS}, hide_parameters=True)

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


def _migrate(connection: Connection) -> None:
    """Bring the tables up to date inside the caller's transaction, one process at a time."""
    from alembic import command
    from alembic.util import CommandError

    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _MIGRATION_LOCK})
    try:
        command.upgrade(alembic_config(connection), "head")
    except CommandError as error:
        raise StoreError(
            f"the database is from another version of Selfheal, most likely a newer one ({error}); nothing in it was changed: "
            f"run that version, or name another database with {SETTING}"
        ) from error


def alembic_config(connection: Connection | None = None) -> Any:
    """Alembic's configuration, without a file, so that it works from an installed wheel."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config
