"""A database that is opened without migrating, as who only looks does: it stays as it is, whatever it is."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest
from sqlalchemy import text

from app.clock import SystemClock
from app.settings import Settings, SettingsError, load
from app.store.database.address import StoreError
from app.store.database.database import Database, newest_migration
from app.store.store import open_store
from tests.standins.postgres import Postgres


async def at(settings: Settings, revision: str | None = None) -> str:
    """The migration that it says it is at, which is set before where one is given."""
    database = Database.connect(settings.database)
    try:
        async with database.write() as session:
            if revision is not None:
                await session.execute(text("UPDATE alembic_version SET version_num = :to"), {"to": revision})
            return str(await session.scalar(text("SELECT version_num FROM alembic_version")))
    finally:
        await database.close()


async def looked(settings: Settings) -> None:
    async with open_store(settings, SystemClock(), migrate=False) as store:
        assert await store.attempts() == []


@pytest.mark.long
@pytest.mark.usefixtures("store")
async def test_one_of_this_version_is_opened(settings: Settings) -> None:
    await looked(settings)


@pytest.mark.usefixtures("store")
async def test_an_older_one_is_told_as_such_and_stays_at_its_migration(settings: Settings) -> None:
    await at(settings, "0001")
    with pytest.raises(StoreError, match=f"older version .*0001; .*{newest_migration()}.*`selfheal migrate`"):
        await looked(settings)
    assert await at(settings) == "0001"


@pytest.mark.usefixtures("store")
async def test_a_newer_one_is_told_as_such_and_stays_at_its_migration(settings: Settings) -> None:
    await at(settings, "9999")
    with pytest.raises(StoreError, match=r"probably a newer one .*9999"):
        await looked(settings)
    assert await at(settings) == "9999"


@pytest.mark.parametrize("database_url", [None])
async def test_where_there_is_no_file_it_is_told_where_and_none_is_made(settings: Settings) -> None:
    with pytest.raises(SettingsError, match=r"no Selfheal database at .*selfheal\.db; .*DATA_DIR .*DATABASE_URL"):
        await looked(settings)
    assert not settings.data_dir.exists()


async def test_a_server_s_database_without_tables_of_ours_stays_empty(postgres: Postgres, tmp_path: Path) -> None:
    name = postgres.create(migrated=False)
    settings = load(data_dir=tmp_path, database_url=postgres.url(name))
    with pytest.raises(SettingsError, match=f"no Selfheal database at PostgreSQL 127.0.0.1:{postgres.port}/{name}; ") as told:
        await looked(settings)
    assert "ss/w:rd" not in str(told.value)
    with psycopg.connect(postgres.url(name)) as connection:
        assert connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone() == (0,)
    postgres.drop(name)


async def test_an_empty_file_is_no_database_and_stays_empty(tmp_path: Path) -> None:
    file = tmp_path / "empty.db"
    file.touch()
    with pytest.raises(StoreError, match="there is no Selfheal database"):
        await Database.open(f"sqlite:///{file}", migrate=False)
    assert file.stat().st_size == 0
