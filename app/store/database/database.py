"""The connection to the database: opening, migrating, transactions. Knows no table.

The rooms of each database's own connections are `app/store/sqlite.py` and `app/store/postgres.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext, suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import structlog
from sqlalchemy import Connection, inspect, text
from sqlalchemy.exc import OperationalError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession, async_sessionmaker

from app.store.database import sqlite
from app.store.database.address import FOLDER_SETTING, SETTING, NoDatabase, Postgres, Sqlite, StoreError, read
from app.store.database.retries import patiently

__all__ = ["Database", "NoDatabase", "StoreError", "alembic_config", "known_migrations", "newest_migration", "revisions_of"]

_OPENING_SECONDS = 30.0
_CLOSE_SECONDS = 10.0
_MIGRATION_LOCK = 0x5E1F_4EA1  # any number, the same in every process
_TURN_SECONDS = 600.0  # for another process's migrations
_ASK_SECONDS = 0.2  # between asking for our turn and asking again
# Between two statements of a migration: a process that is frozen in the middle must not hold up the others for ever.
_FROZEN = "SET LOCAL idle_in_transaction_session_timeout = '60s'"
_MIGRATIONS = Path(__file__).parent / "migrations"
_log = structlog.get_logger(__name__)
T = TypeVar("T")


class Database:
    """An open database at the newest migration. Close it: each connection of SQLite is a thread."""

    def __init__(self, engine: AsyncEngine, readers: int | None = None, one_thread: sqlite.OneThread | None = None) -> None:
        self.engine = engine
        self._one_thread = one_thread
        self._gate = asyncio.Semaphore(readers) if readers else nullcontext()
        self._writers = async_sessionmaker(engine, expire_on_commit=False)
        self._readers = async_sessionmaker(engine.execution_options(selfheal_reads=True), expire_on_commit=False)

    @classmethod
    async def open(cls, url: str, *, migrate: bool = True) -> Database:
        """Connect and migrate. `url` as people write it (`app/store/address.py`). Raises `StoreError`.

        Without `migrate` nothing is made or changed: one that is not at the newest migration is refused, and where there is
        none at all, that is `NoDatabase`.
        """
        address = read(url)
        if isinstance(address, Postgres):
            return cls(await _open_postgres(address, migrate))
        return cls(await _open_sqlite(address, migrate), one_thread=sqlite.OneThread(address))

    @classmethod
    def connect(cls, url: str) -> Database:
        """As it is, at whichever migration; nothing is asked of it yet. Raises `StoreError` for what is no URL."""
        address = read(url)
        if isinstance(address, Postgres):
            from app.store.database import postgres

            return cls(postgres.pool(address))
        return cls(sqlite.pool(address))

    def for_onlookers(self, readers: int) -> Database:
        """The same one for those who only look: at most so many read at a time, so that writers find connections."""
        return Database(self.engine, readers)

    async def close(self) -> None:
        with suppress(TimeoutError):  # a server that does not answer is not waited for: the process is about to end
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self.engine.dispose()
                if self._one_thread is not None:
                    await self._one_thread.close()

    @asynccontextmanager
    async def write(self) -> AsyncIterator[AsyncSession]:
        """One transaction that may write; commits at the end of the block."""
        async with self._writers.begin() as session:
            yield session

    async def write_in_one(self, work: Callable[[Connection], T]) -> T:
        """One transaction that is nothing but statements, for what comes in masses: several times cheaper than `write`.

        `work` must not touch what belongs to the event loop. Who stops waiting may find later that it was committed.
        """
        if self._one_thread is not None:
            return await self._one_thread.write(work)
        async with self.engine.begin() as connection:
            return await connection.run_sync(work)

    @asynccontextmanager
    async def read(self) -> AsyncIterator[AsyncSession]:
        """One transaction that only reads."""
        async with self._gate, self._readers.begin() as session:
            yield session


async def _open_sqlite(address: Sqlite, migrate: bool) -> AsyncEngine:
    try:
        if not migrate and not await asyncio.to_thread(_has_content, address.path):
            raise _none_at(address)
        engine = sqlite.pool(address)
        await _ready(engine, address, migrate)
    except (SQLAlchemyError, OSError) as error:
        why = str(error).partition("\n")[0]  # SQLAlchemy adds the statement and where to read more
        raise StoreError(
            f"the database cannot be opened: {why}; {address.path} is what {SETTING} names, by default in the data folder"
        ) from error
    return engine


def _has_content(file: Path) -> bool:
    return file.exists() and file.stat().st_size > 0  # merely connecting would write to an empty one


async def _open_postgres(address: Postgres, migrate: bool) -> AsyncEngine:
    # Its driver is loaded only for those who use it.
    from app.store.database import postgres

    opening = postgres.unhurried(address)
    try:
        await _ready(opening, address, migrate)
    except postgres.ERRORS as error:
        raise postgres.refusal(address, error) from error
    await opening.dispose()
    return postgres.pool(address)


async def _ready(engine: AsyncEngine, address: Sqlite | Postgres, migrate: bool) -> None:
    """Bring it up to date, or without `migrate` see that it is; an engine that cannot be is disposed of."""

    async def make_current() -> None:
        async with engine.execution_options(selfheal_reads=True).connect() as connection:
            revisions = await connection.run_sync(revisions_of)
        if revisions == [newest_migration()]:
            return
        if not migrate:
            raise _not_current(address, revisions)
        async with engine.begin() as connection:
            if engine.dialect.name == "postgresql":
                await _turn(connection)
            await connection.run_sync(_migrate)

    try:
        if engine.dialect.name == "sqlite":
            # Processes that start together: a file that is put into WAL mode is locked at once, without any waiting.
            await patiently(make_current, _OPENING_SECONDS, passing=_is_locked)
        else:
            await make_current()
    except BaseException:
        await engine.dispose()
        raise


async def _turn(connection: AsyncConnection) -> None:
    """Wait until no other process migrates; it stays our turn to the end of the transaction. Raises `StoreError`."""
    await connection.execute(text(_FROZEN))
    asking = text("SELECT pg_try_advisory_xact_lock(:lock)").bindparams(lock=_MIGRATION_LOCK)
    is_told = False
    try:
        async with asyncio.timeout(_TURN_SECONDS):
            while not await connection.scalar(asking):
                if not is_told:
                    _log.info("another process migrates the database; waiting for it", at_most=_TURN_SECONDS)
                    is_told = True
                await asyncio.sleep(_ASK_SECONDS)
    except TimeoutError as error:
        raise StoreError(
            f"the database is being migrated by another process, for more than {_TURN_SECONDS:g} s; start again when that one "
            "is done, or end it: it holds an advisory lock in pg_locks"
        ) from error


def _is_locked(error: BaseException) -> bool:
    return isinstance(error, OperationalError) and "locked" in str(error.orig)


def revisions_of(connection: Connection) -> list[str]:
    """What a database is at; empty where there are no tables of ours.

    Asked first, and without Alembic: most processes find a database that has it all, and Alembic takes half a second.
    """
    if not inspect(connection).has_table("alembic_version"):
        return []
    return list(connection.execute(text("SELECT version_num FROM alembic_version")).scalars())


def newest_migration() -> str:
    """The revision that this version of the program wants."""
    return known_migrations()[-1]


@cache
def known_migrations() -> tuple[str, ...]:
    """Every revision that this version knows, in order: the files are named after theirs."""
    return tuple(sorted(file.name.partition("_")[0] for file in (_MIGRATIONS / "versions").glob("[0-9]*_*.py")))


def _none_at(address: Sqlite | Postgres) -> NoDatabase:
    return NoDatabase(
        f"there is no database of Selfheal at {_name(address)}: {FOLDER_SETTING} (the folder of SQLite's) or {SETTING} names "
        "another; the service makes one when it starts"
    )


def _not_current(address: Sqlite | Postgres, revisions: list[str]) -> StoreError:
    if not revisions:
        return _none_at(address)
    if set(revisions) <= set(known_migrations()):
        return StoreError(
            f"{_name(address)} is of an older version of Selfheal (migration {', '.join(revisions)}, this one wants "
            f"{newest_migration()}), and nothing in it was changed: run `selfheal migrate` or start this version's service, "
            "once no process of the older one runs"
        )
    return _of_another_version(f"it is at {', '.join(revisions)}")


def _of_another_version(why: object) -> StoreError:
    return StoreError(
        f"the database is from another version of Selfheal, most likely a newer one ({why}); nothing in it was changed: "
        f"run that version, or name another database with {SETTING}"
    )


def _name(address: Sqlite | Postgres) -> str:
    return str(address.path) if isinstance(address, Sqlite) else f"PostgreSQL {address.where}/{address.database}"


def _migrate(connection: Connection) -> None:
    """Bring the tables up to date inside the caller's transaction."""
    from alembic import command
    from alembic.util import CommandError

    try:
        command.upgrade(alembic_config(connection), "head")
    except CommandError as error:
        raise _of_another_version(error) from error


def alembic_config(connection: Connection | None = None) -> Any:
    """Alembic's configuration, without a file, so that it works from an installed wheel."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config
