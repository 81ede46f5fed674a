"""The service runs once for all stories of a module, in processes of its own; every story has its own repository."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.story.story import Story, told


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def story(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Story]:
    async with told(tmp_path_factory.mktemp("story")) as story:
        yield story
