"""Looks at a database without changing it: what it is, at which migration, and whether it can be written."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from sqlalchemy import Connection, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import create_async_engine

from app.store.address import Sqlite, StoreError, read
from app.store.database import alembic_config

SECONDS = 2.0  # that another writer may hold it


@dataclass(frozen=True, slots=True)
class Condition:
    """`revision` is None for a database without tables of ours; `known` says whether this version has such a migration."""

    name: str  # "SQLite at /path" or "PostgreSQL at host/name"; no password
    version: str
    revision: str | None
    newest: str
    known: bool


async def condition(url: str) -> Condition | None:
    """None for an SQLite file that is still to be made. Raises `StoreError` for a database that cannot be used."""
    address = read(url)
    if isinstance(address, Sqlite) and not await asyncio.to_thread(address.path.exists):
        return None
    name = _name(make_url(url))
    try:
        if isinstance(address, Sqlite):
            where = URL.create("sqlite+aiosqlite", database=str(address.path))
            engine = create_async_engine(where, connect_args={"timeout": SECONDS})
        else:
            from app.store import postgres

            engine = postgres.unhurried(address)
        try:
            async with engine.connect() as connection:
                return await connection.run_sync(_look, name)
        finally:
            await engine.dispose()
    except (SQLAlchemyError, OSError) as error:
        raise StoreError(f"{name}: {str(error).partition(chr(10))[0]}") from error


def _look(connection: Connection, name: str) -> Condition:
    from alembic.runtime.migration import MigrationContext
    from alembic.script import ScriptDirectory

    is_sqlite = connection.dialect.name == "sqlite"
    version = str(connection.execute(text("SELECT sqlite_version()" if is_sqlite else "SHOW server_version")).scalar_one())
    revision = MigrationContext.configure(connection).get_current_revision()
    scripts = ScriptDirectory.from_config(alembic_config())
    known = revision is None or revision in {script.revision for script in scripts.walk_revisions()}
    connection.rollback()
    # Made for real, and never kept: SQLite's driver begins no transaction for it by itself.
    if is_sqlite:
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    connection.exec_driver_sql("CREATE TABLE selfheal_doctor (canary INTEGER)")
    connection.rollback()
    return Condition(name, version, revision, str(scripts.get_current_head()), known)


def _name(address: URL) -> str:
    if address.get_backend_name() == "sqlite":
        return f"SQLite at {address.database}"
    return f"PostgreSQL at {address.host or 'the local socket'}/{address.database or ''}"
