"""SQLite connections: WAL mode, and write transactions that begin with `BEGIN IMMEDIATE`, because upgrading a read transaction
fails at once instead of waiting. Knows no table.

    pool           aiosqlite, for general use: each statement is a round trip to the connection's thread
    WriterThread   runs whole transactions in one thread, with one round trip each

Under load each round trip waits for the interpreter's lock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from app.store.database.address import Sqlite

_BUSY_SECONDS = 5.0  # GitHub hangs up on a webhook after ten
T = TypeVar("T")


def pool(address: Sqlite) -> AsyncEngine:
    """A connection pool. It must be disposed of: each of its connections is a thread."""
    address.path.parent.mkdir(parents=True, exist_ok=True)
    engine = create_async_engine(_url("aiosqlite", address), connect_args={"timeout": _BUSY_SECONDS}, hide_parameters=True)
    _prepared(engine.sync_engine)
    return engine


class WriterThread:
    """Runs transactions one after another in a thread of its own, on one connection that is opened lazily."""

    def __init__(self, address: Sqlite) -> None:
        self.engine = create_engine(_url("pysqlite", address), connect_args={"timeout": _BUSY_SECONDS}, hide_parameters=True)
        _prepared(self.engine)
        self._thread = ThreadPoolExecutor(1, "sqlite")

    async def write(self, work: Callable[[Connection], T]) -> T:
        """Run the work and commit, even if the caller is cancelled."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._do, work)

    def _do(self, work: Callable[[Connection], T]) -> T:
        with self.engine.begin() as connection:
            return work(connection)

    async def close(self) -> None:
        self._thread.submit(self.engine.dispose)
        await asyncio.to_thread(self._thread.shutdown)


def _url(driver: str, address: Sqlite) -> URL:
    return URL.create(f"sqlite+{driver}", database=str(address.path))


def _prepared(engine: Engine) -> None:
    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _: object) -> None:
        connection.isolation_level = None  # the driver's own BEGIN comes late, and is missing before DDL
        cursor = connection.cursor()
        cursor.execute("PRAGMA journal_mode=WAL")
        cursor.execute("PRAGMA foreign_keys=ON")
        cursor.close()

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        reads = connection.get_execution_options().get("selfheal_reads", False)
        connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")
