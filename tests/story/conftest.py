"""The service runs once per database for all stories of a module, in its own processes; every story has its own repository."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.databases import module_database_url, postgres
from tests.story.story import Story, told

__all__ = ["module_database_url", "postgres"]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def story(tmp_path_factory: pytest.TempPathFactory, module_database_url: str | None) -> AsyncIterator[Story]:
    async with told(tmp_path_factory.mktemp("story"), database_url=module_database_url) as story:
        yield story
