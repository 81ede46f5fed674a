"""Inspects a database without changing it: its version, its migration, and whether it is writable."""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import dataclass, replace

from sqlalchemy import Connection, text
from sqlalchemy.engine import URL
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from app.store.database.address import Postgres, StoreError, read
from app.store.database.database import known_migrations, newest_migration, revisions_of

SECONDS = 2.0  # to wait for another writer


@dataclass(frozen=True, slots=True)
class Condition:
    """A database's condition. `revision`: None without our tables; `known`: whether this version has that migration."""

    name: str  # "SQLite at /path" or "PostgreSQL at host/name"; no password
    version: str
    revision: str | None
    newest: str
    known: bool
    free: int | None = None  # bytes, on the disk of a SQLite file


async def condition(url: str) -> Condition | None:
    """Inspect the database; None for a SQLite file that does not exist yet. Raises `StoreError` if it is unusable."""
    address = read(url)
    if isinstance(address, Postgres):
        # Load the driver only when it is used.
        from app.store.database import postgres

        try:
            return await _inspect(postgres.without_deadlines(address), f"PostgreSQL at {address.where}/{address.database}")
        except postgres.ERRORS as error:
            raise postgres.refusal(address, error) from error
    if not await asyncio.to_thread(address.path.exists):
        return None
    name, where = f"SQLite at {address.path}", URL.create("sqlite+aiosqlite", database=str(address.path))
    try:
        found = await _inspect(create_async_engine(where, connect_args={"timeout": SECONDS}), name)
        return replace(found, free=(await asyncio.to_thread(shutil.disk_usage, address.path.parent)).free)
    except (SQLAlchemyError, OSError) as error:
        raise StoreError(f"{name}: {str(error).partition(chr(10))[0]}") from error


async def _inspect(engine: AsyncEngine, name: str) -> Condition:
    try:
        async with engine.connect() as connection:
            return await connection.run_sync(_look, name)
    finally:
        await engine.dispose()


def _look(connection: Connection, name: str) -> Condition:
    is_sqlite = connection.dialect.name == "sqlite"
    version = str(connection.execute(text("SELECT sqlite_version()" if is_sqlite else "SHOW server_version")).scalar_one())
    revision = next(iter(revisions_of(connection)), None)
    known = revision is None or revision in known_migrations()
    connection.rollback()
    # A real write, rolled back. SQLite's driver does not begin a transaction for DDL.
    if is_sqlite:
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    connection.exec_driver_sql("CREATE TABLE selfheal_doctor (canary INTEGER)")
    connection.rollback()
    return Condition(name, version, revision, newest_migration(), known)
