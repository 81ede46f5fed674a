"""One open sandbox of each kind for a whole module of the contract; its tests work in candidates of their own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from sandbox.base import Sandbox
from tests.sandbox.conftest import FILES, LIMITS, tarball
from tests.sandbox.contract.backends import BACKENDS, Backend

OPTIONAL = {
    "e2b": pytest.mark.optional(reason="its machines need root"),
    **dict.fromkeys(("docker", "podman"), pytest.mark.optional(reason="needs a container engine")),
}
EACH = [pytest.param(name, marks=OPTIONAL.get(name, ())) for name in BACKENDS]


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=EACH)
async def backend(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Backend]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PIP_NO_INDEX", "1")  # that there is none is told at once
        async with BACKENDS[request.param](tmp_path_factory.mktemp(request.param)) as made:
            yield made


@pytest_asyncio.fixture(loop_scope="module", params=EACH)
async def fresh(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Backend]:
    """One in which nothing was opened before."""
    async with BACKENDS[request.param](tmp_path) as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox(backend: Backend) -> AsyncIterator[Sandbox]:
    async with backend.sandboxes.open("contract", LIMITS) as opened:
        await opened.unpack(tarball(FILES))
        yield opened
