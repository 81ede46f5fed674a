"""Fixtures for tests that open a store: each of them runs on SQLite and on PostgreSQL. A conftest imports what it needs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.standins.postgres import Postgres, PostgresMissing, serving

KINDS = ("sqlite", "postgresql")


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    try:
        with serving() as server:
            yield server
    except PostgresMissing as missing:
        pytest.skip(str(missing))


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
