"""Databases in every condition; none is changed by being looked at."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest

from app.cli.doctor import checks
from app.cli.doctor.checks import Check
from app.clock import SystemClock
from app.settings import Settings
from app.store.store import open_store


@pytest.fixture
def database_url() -> None:
    """The data folder's SQLite."""


async def looked(settings: Settings) -> dict[str, Check]:
    return {check.name: check async for check in checks.check_database(settings)}


def file_of(settings: Settings) -> Path:
    return settings.data_dir / "selfheal.db"


async def made(settings: Settings) -> None:
    async with open_store(settings, SystemClock()):
        pass


async def test_one_that_is_not_there_yet_is_fine_and_is_not_made(settings: Settings) -> None:
    found = await looked(settings)
    assert [check.status for check in found.values()] == ["ok"]
    assert not file_of(settings).exists()


async def test_one_of_this_version_is_at_the_newest_migration(settings: Settings) -> None:
    await made(settings)
    found = await looked(settings)
    assert {check.status for check in found.values()} == {"ok"}
    assert str(file_of(settings)) in found["opens"].seen
    assert "latest" in found["migration"].seen
    with sqlite3.connect(file_of(settings)) as connection:
        names = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
    assert "selfheal_doctor" not in names


async def test_one_of_a_newer_version_fails_and_stays_as_it_is(settings: Settings) -> None:
    await made(settings)
    with sqlite3.connect(file_of(settings)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    found = await looked(settings)
    assert found["migration"].status == "failed"
    assert "9999" in found["migration"].seen
    with sqlite3.connect(file_of(settings)) as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchall() == [("9999",)]


async def test_what_is_no_database_fails(settings: Settings) -> None:
    settings.data_dir.mkdir(parents=True)
    file_of(settings).write_text("no database at all, but a text of some length" * 20)
    found = await looked(settings)
    assert found["opens"].status == "failed"
    assert str(file_of(settings)) in found["opens"].seen


async def test_one_that_somebody_else_holds_is_told(settings: Settings) -> None:
    await made(settings)
    with sqlite3.connect(file_of(settings), isolation_level=None) as connection:
        connection.execute("BEGIN IMMEDIATE")
        found = await looked(settings)
    assert found["opens"].status == "failed"
    assert "locked" in found["opens"].seen
    assert os.path.exists(file_of(settings))
