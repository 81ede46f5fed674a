"""The service runs once for all stories of a module, in processes of its own; every story has its own repository."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from app.clock import SystemClock
from app.settings import load
from app.store.store import open_store
from tests.standins.github import GitHub
from tests.story.service import running
from tests.story.story import Story

# Short enough for a test to see a takeover, long enough for a machine that is busy.
FAST = {"SELFHEAL_LEASE_SECONDS": "6", "SELFHEAL_SWEEP_SECONDS": "1", "SELFHEAL_MODEL": "none", "SELFHEAL_MAX_SECONDS": "90"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def story(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Story]:
    folder: Path = tmp_path_factory.mktemp("story")
    async with GitHub() as github, running(github, folder, FAST) as service:
        async with open_store(load(data_dir=folder / "data"), SystemClock()) as store:
            yield Story(github, service, store)
