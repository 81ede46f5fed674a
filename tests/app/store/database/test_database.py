from __future__ import annotations

import asyncio
import os
import re
import sqlite3
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text
from structlog.testing import capture_logs

from app.store.database import database as database_room
from app.store.database.address import StoreError
from app.store.database.database import Database, alembic_config, newest_migration
from app.store.models import Base
from tests.app.waiting import until
from tests.databases import KINDS
from tests.standins.postgres import Postgres

FIRST_ATTEMPT = """
INSERT INTO attempts (id, repository_id, installation_id, trigger, status, told, tries, lease_token, event_count, tokens_in,
    tokens_out, calls, created_at)
VALUES ('a1', 7, 1, 'automatic', 'queued', false, 0, 0, 1, 0, 0, 0, '2026-01-01')
"""
REQUEST = "INSERT INTO requests (id, attempt_id, source, comment_id, title, created_at) VALUES"
COMMENTS = ((1, "NULL"), (2, 5), (3, 5), (4, 6), (5, 5), (6, "NULL"))


@pytest.fixture(params=KINDS)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Of a database in which nothing is yet."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'deep' / 'selfheal.db'}"
        return
    server: Postgres = request.getfixturevalue("postgres")
    name = server.create(migrated=False)
    yield server.url(name)
    server.drop(name)


async def test_migrations_from_nothing_make_the_tables_of_the_models(url: str) -> None:
    def differences(connection: Connection) -> list[object]:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        return list(compare_metadata(context, Base.metadata))

    database = await Database.open(url)
    async with database.engine.connect() as connection:
        assert await connection.run_sync(differences) == []
        if connection.dialect.name == "sqlite":
            assert await connection.scalar(text("PRAGMA journal_mode")) == "wal"
            assert await connection.scalar(text("PRAGMA foreign_keys")) == 1
    await database.close()


def test_the_newest_migration_is_known_by_the_names_of_their_files() -> None:
    """So that a database that has it opens without Alembic."""
    scripts = ScriptDirectory.from_config(alembic_config())
    assert newest_migration() == scripts.get_current_head()
    for script in scripts.walk_revisions():
        assert Path(script.path).name.startswith(f"{script.revision}_")


async def test_what_the_first_version_kept_is_kept(url: str, tmp_path: Path) -> None:
    """Each migration is made on a database with rows that point to each other."""

    def migrate(connection: Connection, to: str) -> None:
        command.upgrade(alembic_config(connection), to)

    (tmp_path / "deep").mkdir()
    database = Database.connect(url)
    async with database.engine.begin() as connection:
        await connection.run_sync(migrate, "0001")
        for row in (
            "INSERT INTO installations VALUES (1, 'octo', 'active', '{}', '2026-01-01')",
            "INSERT INTO repositories VALUES (7, 1, 'octo/calculator', 'main', false, false, '2026-01-01')",
            FIRST_ATTEMPT,
            "INSERT INTO events VALUES ('a1', 1, '2026-01-01', '{}')",
            *(f"{REQUEST} ({number}, 'a1', 'comment', {comment}, '', '2026-01-01')" for number, comment in COMMENTS),
        ):
            await connection.execute(text(row))
        await connection.run_sync(migrate, "head")
        assert not await connection.scalar(text("SELECT forgotten FROM attempts WHERE id = 'a1'"))
        assert await connection.scalar(text("SELECT count(*) FROM events")) == 1
        comments = list(await connection.scalars(text("SELECT comment_id FROM requests ORDER BY id")))
        assert comments == [None, 5, None, 6, None, None]  # each names one request, the first
    await database.close()


@pytest.mark.long
async def test_processes_that_start_together_migrate_once(url: str) -> None:
    program = f"""
import asyncio
from app.store.database.database import Database
async def main():
    await (await Database.open({url!r})).close()
asyncio.run(main())
"""
    starting = [await asyncio.create_subprocess_exec(sys.executable, "-c", program) for _ in range(3)]
    assert [await process.wait() for process in starting] == [0, 0, 0]


@pytest.mark.long
async def test_opening_waits_for_who_has_the_file_locked(tmp_path: Path) -> None:
    """Another process is putting it into WAL mode: SQLite answers "locked" at once, without its own waiting."""
    path = tmp_path / "selfheal.db"
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("PRAGMA locking_mode=EXCLUSIVE")
    other.execute("BEGIN EXCLUSIVE")
    opening = asyncio.create_task(Database.open(f"sqlite+aiosqlite:///{path}"))
    await asyncio.wait({opening}, timeout=6.5)  # longer than the driver waits
    assert not opening.done()
    other.close()
    await (await opening).close()


async def test_opening_waits_for_another_process_to_migrate_and_says_so_but_not_for_ever(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = postgres.create(migrated=False)
    url = postgres.url(name)
    other = await psycopg.AsyncConnection.connect(url)
    await other.execute("SELECT pg_advisory_xact_lock(%s)", (database_room._MIGRATION_LOCK,))
    with capture_logs() as said:
        opening = asyncio.create_task(Database.open(url))
        await until(lambda: bool(said))
        assert "another process is migrating" in said[0]["event"]
        monkeypatch.setattr(database_room, "_LOCK_SECONDS", 0.1)
        with pytest.raises(StoreError, match=r"another process has been migrating.*pg_locks"):
            await Database.open(url)
        await other.close()
        await (await opening).close()
    postgres.drop(name)


@pytest.mark.long
async def test_who_is_frozen_while_migrating_holds_up_the_others_for_a_while_only(postgres: Postgres) -> None:
    name = postgres.create(migrated=False)
    program = f"""
import asyncio, os, signal
from app.store.database import database

database._FROZEN = database._FROZEN.replace("60s", "100ms")
database._migrate = lambda _: os.kill(os.getpid(), signal.SIGSTOP)
asyncio.run(database.Database.open({postgres.url(name)!r}))
"""
    frozen = await asyncio.create_subprocess_exec(sys.executable, "-c", program)
    await asyncio.to_thread(os.waitid, os.P_PID, frozen.pid, os.WSTOPPED | os.WNOWAIT)
    async with asyncio.timeout(10):
        await (await Database.open(postgres.url(name))).close()
    frozen.kill()
    await frozen.wait()
    postgres.drop(name)


async def test_opening_again_changes_nothing(url: str) -> None:
    for _ in range(2):
        await (await Database.open(url)).close()


async def test_a_database_of_a_newer_version_is_refused_by_name(url: str) -> None:
    database = await Database.open(url)
    async with database.write() as session:
        await session.execute(text("UPDATE alembic_version SET version_num = 'from the future'"))
    await database.close()
    with pytest.raises(StoreError, match=r"newer one .*nothing in it was changed: .* SELFHEAL_DATABASE_URL"):
        await Database.open(url)


async def test_a_file_that_cannot_be_opened_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "deep").write_text("a file where a folder should be")
    with pytest.raises(StoreError, match="cannot be opened"):
        await Database.open(f"sqlite:///{tmp_path}/deep/selfheal.db")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda url: url.replace("selfheal:p", "selfheal:q"), "rejects user 'selfheal'.*check the user and the password"),
        (lambda url: url.replace("/test_", "/gone_"), "has no database 'gone_.*create it"),
        (lambda url: re.sub(r":\d+/", ":1/", url), "connect to PostgreSQL at 127.0.0.1:1 .*start it, or check host and port"),
        (lambda url: url.replace("prefer", "require"), "offers no TLS.*`sslmode=disable`"),
        (lambda url: url.replace("127.0.0.1", "nowhere.invalid"), "cannot connect to PostgreSQL at nowhere.invalid"),
    ],
    ids=["password", "database", "port", "tls", "host"],
)
async def test_a_server_that_cannot_be_used_is_one_line_with_the_way_out(
    postgres: Postgres, change: Callable[[str], str], says: str
) -> None:
    name = postgres.create(migrated=False)
    with pytest.raises(StoreError, match=f"^SELFHEAL_DATABASE_URL: .*{says}") as refused:
        await Database.open(change(postgres.url(name)))
    postgres.drop(name)
    said = str(refused.value)
    assert "\n" not in said
    assert not any(part in said for part in ("ss/w", "w:rd", "ss%2F"))


async def test_reading_does_not_wait_for_a_writer(url: str) -> None:
    database = await Database.open(url)
    async with database.write() as writing:
        await writing.execute(text("UPDATE alembic_version SET version_num = version_num"))
        async with asyncio.timeout(2), database.read() as reading:
            assert await reading.scalar(text("SELECT count(*) FROM alembic_version")) == 1
    await database.close()


async def test_writers_that_are_cancelled_in_the_middle_leave_no_lock(url: str) -> None:
    database = await Database.open(url)

    async def write() -> None:
        while True:
            async with database.write() as session:
                await session.execute(text("UPDATE alembic_version SET version_num = version_num"))

    for round_ in range(10):
        tasks = [asyncio.create_task(write()) for _ in range(3)]
        await asyncio.sleep(0.003 * (round_ + 1))
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    async with asyncio.timeout(2), database.write() as session:
        await session.execute(text("UPDATE alembic_version SET version_num = version_num"))
    await database.close()
