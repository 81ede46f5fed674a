"""Real parts for the service's tests: a database of their own, a real Redis, a clock that can be moved."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from app.clock import Clock, SystemClock
from app.queue.redis import RedisMissing, embedded, server_binary
from app.settings import Settings, load
from app.store.store import Store, open_store
from tests.agent.remembered import remembered_runs, results
from tests.app.plant import plant
from tests.databases import database_url, migrated_sqlite, postgres

__all__ = ["database_url", "migrated_sqlite", "plant", "postgres", "remembered_runs", "results"]


@pytest.fixture
def settings(tmp_path: Path, database_url: str | None) -> Settings:
    return load(
        database_url=database_url,
        data_dir=tmp_path / "data",
        github_webhook_secret="hush",
        lease_seconds=1.2,
        sweep_seconds=0.2,
        port=0,
        pages_port=0,
    )


@pytest.fixture
def clock() -> Clock:
    """The store's; files whose tests move it have one of their own."""
    return SystemClock()


@pytest.fixture
async def store(settings: Settings, clock: Clock, migrated_sqlite: Path) -> AsyncIterator[Store]:
    """Its database has its tables already, whichever it is."""
    if settings.database_url is None:
        settings.data_dir.mkdir(exist_ok=True)
        shutil.copy(migrated_sqlite, settings.data_dir / "selfheal.db")
    async with open_store(settings, clock) as opened:
        yield opened


@pytest.fixture
async def redis_url(tmp_path: Path) -> AsyncIterator[str]:
    try:
        server_binary()
    except RedisMissing as missing:
        pytest.skip(str(missing))
    async with embedded(tmp_path / "redis") as url:
        yield url
