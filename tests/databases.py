"""Fixtures for tests that open a store: each of them runs on SQLite and on PostgreSQL. A conftest imports what it needs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from app.store.database.database import Database
from tests.standins.postgres import Postgres, PostgresMissing, serving

KINDS = ("sqlite", "postgresql")
# For modules of stories in which the database has no say.
on_sqlite = pytest.mark.parametrize("module_database_url", ["sqlite"], indirect=True, scope="module")


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    try:
        with serving() as server:
            yield server
    except PostgresMissing as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def migrated_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file at the newest migration, to be copied; what PostgreSQL's template is there."""
    file = tmp_path_factory.mktemp("migrated") / "selfheal.db"
    with ThreadPoolExecutor(1) as beside:  # whoever asks may be in an event loop
        beside.submit(asyncio.run, _migrate(file)).result()
    return file


async def _migrate(file: Path) -> None:
    await (await Database.open(f"sqlite:///{file}")).close()


@pytest.fixture(params=KINDS)
def database_url(request: pytest.FixtureRequest) -> Iterator[str | None]:
    """A fresh database: None for SQLite's default in the data folder, else the URL of one in PostgreSQL."""
    yield from _fresh(request)


@pytest.fixture(scope="module", params=KINDS)
def module_database_url(request: pytest.FixtureRequest) -> Iterator[str | None]:
    """As `database_url`, one for all tests of a module."""
    yield from _fresh(request)


def _fresh(request: pytest.FixtureRequest) -> Iterator[str | None]:
    if request.param == "sqlite":
        yield None
        return
    server: Postgres = request.getfixturevalue("postgres")
    name = server.create()
    yield server.url(name)
    server.drop(name)
