"""The connection to the database: opening, migrating, transactions. Knows no table.

`sqlite.py` and `postgres.py` make the connections.
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

from app import private_files
from app.store.database import sqlite
from app.store.database.address import FOLDER_SETTING, SETTING, NoDatabase, Postgres, Sqlite, StoreError, read
from app.store.database.retries import retried

_OPENING_SECONDS = 30.0
_CLOSE_SECONDS = 10.0
_MIGRATION_LOCK = 0x5E1F_4EA1  # any number, the same in every process
_LOCK_SECONDS = 600.0  # to wait for another process's migrations
_LOCK_POLL_SECONDS = 0.2  # between two tries to get the lock
# A process that freezes between two statements of a migration must not block the others forever.
_FROZEN = "SET LOCAL idle_in_transaction_session_timeout = '60s'"
_MIGRATIONS = Path(__file__).parents[1] / "migrations"
_log = structlog.get_logger(__name__)
T = TypeVar("T")


class Database:
    """An open database at the newest migration. It must be closed, as each SQLite connection is a thread."""

    def __init__(
        self, engine: AsyncEngine, readers: int | None = None, writer_thread: sqlite.WriterThread | None = None
    ) -> None:
        self.engine = engine
        self._writer_thread = writer_thread
        self._gate = asyncio.Semaphore(readers) if readers else nullcontext()
        self._writers = async_sessionmaker(engine, expire_on_commit=False)
        self._readers = async_sessionmaker(engine.execution_options(selfheal_reads=True), expire_on_commit=False)

    @classmethod
    async def open(cls, url: str, *, migrate: bool = True) -> Database:
        """Connect and migrate. `url` is in the format of `address.py`. Raises `StoreError`.

        With `migrate=False` nothing is created or changed: a database at another migration is refused, and a missing one raises
        `NoDatabase`.
        """
        address = read(url)
        if isinstance(address, Postgres):
            return cls(await _open_postgres(address, migrate))
        return cls(await _open_sqlite(address, migrate), writer_thread=sqlite.WriterThread(address))

    @classmethod
    def connect(cls, url: str) -> Database:
        """The database at any migration; connects lazily. Raises `StoreError` for an invalid URL."""
        address = read(url)
        if isinstance(address, Postgres):
            from app.store.database import postgres

            return cls(postgres.pool(address))
        return cls(sqlite.pool(address))

    def for_pages(self, readers: int) -> Database:
        """The same database with at most `readers` concurrent reads, so that writers find connections."""
        return Database(self.engine, readers)

    async def close(self) -> None:
        with suppress(TimeoutError):  # the process is about to end: do not wait for a server that does not answer
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self.engine.dispose()
                if self._writer_thread is not None:
                    await self._writer_thread.close()

    @asynccontextmanager
    async def write(self) -> AsyncIterator[AsyncSession]:
        """A transaction that may write; commits at the end of the block."""
        async with self._writers.begin() as session:
            yield session

    async def write_in_one(self, work: Callable[[Connection], T]) -> T:
        """Run `work` in one transaction, for batches: several times cheaper than `write`.

        On SQLite `work` runs in another thread and commits even if the caller is cancelled.
        """
        if self._writer_thread is not None:
            return await self._writer_thread.write(work)
        async with self.engine.begin() as connection:
            return await connection.run_sync(work)

    @asynccontextmanager
    async def read(self) -> AsyncIterator[AsyncSession]:
        """A transaction that only reads."""
        async with self._gate, self._readers.begin() as session:
            yield session


async def _open_sqlite(address: Sqlite, migrate: bool) -> AsyncEngine:
    try:
        if not migrate and not await asyncio.to_thread(_has_content, address.path):
            raise _none_at(address)
        if migrate:
            await asyncio.to_thread(private_files.make_database, address.path)
        engine = sqlite.pool(address)
        await _ready(engine, address, migrate)
    except (SQLAlchemyError, OSError) as error:
        why = str(error).partition("\n")[0]  # SQLAlchemy appends the statement and a link
        raise StoreError(
            f"the database {address.path} cannot be opened: {why}; {SETTING} sets its path (default: in the data folder)"
        ) from error
    return engine


def _has_content(file: Path) -> bool:
    return file.exists() and file.stat().st_size > 0  # connecting would write to an empty file


async def _open_postgres(address: Postgres, migrate: bool) -> AsyncEngine:
    # Load the driver only when it is used.
    from app.store.database import postgres

    opening = postgres.without_deadlines(address)
    try:
        await _ready(opening, address, migrate)
    except postgres.ERRORS as error:
        raise postgres.refusal(address, error) from error
    await opening.dispose()
    return postgres.pool(address)


async def _ready(engine: AsyncEngine, address: Sqlite | Postgres, migrate: bool) -> None:
    """Migrate, or with `migrate=False` check the migration; disposes of the engine on failure."""

    async def make_current() -> None:
        async with engine.execution_options(selfheal_reads=True).connect() as connection:
            revisions = await connection.run_sync(revisions_of)
        if revisions == [newest_migration()]:
            return
        if not migrate:
            raise _not_current(address, revisions)
        async with engine.begin() as connection:
            if engine.dialect.name == "postgresql":
                await _lock_migrations(connection)
            await connection.run_sync(_migrate)

    try:
        if engine.dialect.name == "sqlite":
            # When processes start together, switching to WAL mode fails at once with a lock, whatever the timeout.
            await retried(make_current, _OPENING_SECONDS, is_transient=_is_locked)
        else:
            await make_current()
    except BaseException:  # also a cancellation: nobody else knows the engine yet
        await engine.dispose()
        raise


async def _lock_migrations(connection: AsyncConnection) -> None:
    """Wait until no other process migrates; the lock lasts until the transaction ends. Raises `StoreError`."""
    await connection.execute(text(_FROZEN))
    asking = text("SELECT pg_try_advisory_xact_lock(:lock)").bindparams(lock=_MIGRATION_LOCK)
    is_logged = False
    try:
        async with asyncio.timeout(_LOCK_SECONDS):
            while not await connection.scalar(asking):
                if not is_logged:
                    _log.info("waiting: another process is migrating the database", at_most=_LOCK_SECONDS)
                    is_logged = True
                await asyncio.sleep(_LOCK_POLL_SECONDS)
    except TimeoutError as error:
        raise StoreError(
            f"another process has been migrating the database for more than {_LOCK_SECONDS:g} s; start again when "
            "it is done, or end that process: it holds an advisory lock in pg_locks"
        ) from error


def _is_locked(error: BaseException) -> bool:
    return isinstance(error, OperationalError) and "locked" in str(error.orig)


def revisions_of(connection: Connection) -> list[str]:
    """The database's revisions; empty if it has no tables of ours. Does not use Alembic, which takes half a second to load."""
    if not inspect(connection).has_table("alembic_version"):
        return []
    return list(connection.execute(text("SELECT version_num FROM alembic_version")).scalars())


def newest_migration() -> str:
    """The revision that this version of Selfheal needs."""
    return known_migrations()[-1]


@cache
def known_migrations() -> tuple[str, ...]:
    """Every revision that this version knows, in order, from the file names."""
    return tuple(sorted(file.name.partition("_")[0] for file in (_MIGRATIONS / "versions").glob("[0-9]*_*.py")))


def _none_at(address: Sqlite | Postgres) -> NoDatabase:
    return NoDatabase(
        f"there is no Selfheal database at {_name(address)}; check {FOLDER_SETTING} (for SQLite) or {SETTING}, or start the "
        "service, which creates it"
    )


def _not_current(address: Sqlite | Postgres, revisions: list[str]) -> StoreError:
    if not revisions:
        return _none_at(address)
    if set(revisions) <= set(known_migrations()):
        return StoreError(
            f"{_name(address)} is from an older version of Selfheal (migration {', '.join(revisions)}; this version needs "
            f"{newest_migration()}); nothing in it was changed. Stop the older version's processes, then run "
            "`selfheal migrate` or start this version's service"
        )
    return _of_another_version(f"it is at {', '.join(revisions)}")


def _of_another_version(why: object) -> StoreError:
    return StoreError(
        f"the database is from another version of Selfheal, probably a newer one ({why}); nothing in it was changed: "
        f"run that version, or set {SETTING} to another database"
    )


def _name(address: Sqlite | Postgres) -> str:
    return str(address.path) if isinstance(address, Sqlite) else f"PostgreSQL {address.where}/{address.database}"


def _migrate(connection: Connection) -> None:
    """Migrate the tables inside the caller's transaction."""
    from alembic import command
    from alembic.util import CommandError

    try:
        command.upgrade(alembic_config(connection), "head")
    except CommandError as error:
        raise _of_another_version(error) from error


def alembic_config(connection: Connection | None = None) -> Any:
    """Alembic's configuration without a file, so that it works from an installed wheel."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config
