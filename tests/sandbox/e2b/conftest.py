"""E2B's sandboxes over the local E2B."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import pytest_asyncio

from sandbox.base import Command, Workspace
from sandbox.e2b.plan import Timeouts
from sandbox.e2b.sandbox import E2BSandbox
from sandbox.e2b.sandboxes import E2BSandboxes
from tests.sandbox.contract.backends import e2b_sandboxes, need_machines
from tests.standins.e2b import E2B

HASTE = Timeouts(call=0.5, create=0.5, line=1.0)


@dataclass(frozen=True)
class Shared:
    """One open sandbox for the tests of a module that break nothing for good."""

    e2b: E2B
    sandbox: E2BSandbox


@pytest_asyncio.fixture(loop_scope="module")
async def e2b() -> AsyncIterator[E2B]:
    async with _served() as served:
        yield served


@pytest.fixture
def sandboxes(e2b: E2B, tmp_path: Path) -> E2BSandboxes:
    return _sandboxes(e2b, tmp_path)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Shared]:
    async with _served() as e2b, _sandboxes(e2b, tmp_path_factory.mktemp("shared")).open("shared") as sandbox:
        yield Shared(e2b, sandbox)


@asynccontextmanager
async def _served() -> AsyncIterator[E2B]:
    need_machines()
    async with E2B.serve() as served:
        served.machines.environment["PIP_RETRIES"] = "0"
        yield served


def _sandboxes(e2b: E2B, folder: Path) -> E2BSandboxes:
    """Less patient than those of a worker."""
    return e2b_sandboxes(folder, replace(e2b.account, timeouts=Timeouts(call=2.0, create=3.0, line=4.0)))


async def count(workspace: Workspace, seconds: float = 0.3) -> bytes:
    """A command that may be done once only: it says how often it was."""
    script = f"sleep {seconds}; echo again >> times; wc -l < times"
    return (await workspace.run(Command(("/bin/sh", "-c", script), 20.0))).stdout.strip()
