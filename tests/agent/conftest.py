from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import pytest_asyncio

from agent.checks.runner import Runner
from agent.contract.verdicts import Check, CheckRun, Reader, VerdictId
from sandbox.base import MIB, InstallFailed, Limits, Packages, Sandbox, SandboxUnavailable, Workspace
from sandbox.install.package_index import configured
from sandbox.install.packages import PackageStore
from sandbox.local import LocalSandboxes
from tests.agent.remembered import remembered_runs, results

__all__ = ["remembered_runs", "results"]

RunCheck = Callable[..., Awaitable[CheckRun]]
Repository = Callable[[Mapping[str, str]], Awaitable[Workspace]]


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def sandbox(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Sandbox]:
    """One real sandbox with pytest and ruff; every test gets candidates of its empty base."""
    folder = tmp_path_factory.mktemp("sandboxes")
    sandboxes = LocalSandboxes(folder / "open", PackageStore(folder / "wheels", await configured()))
    async with AsyncExitStack() as closing:
        try:
            opened = await closing.enter_async_context(sandboxes.open("checks"))
            await opened.install(Packages(requirements=("pytest", "ruff", "pytest-xdist", "coverage")))
        except (SandboxUnavailable, InstallFailed) as missing:
            pytest.skip(f"needs bubblewrap and a package index: {missing}")
        yield opened


@pytest_asyncio.fixture(loop_scope="session")
async def small_sandbox(tmp_path: Path) -> AsyncIterator[Sandbox]:
    """One whose commands may take 200 MiB together."""
    sandboxes = LocalSandboxes(tmp_path / "open", PackageStore(tmp_path / "wheels", await configured()))
    async with AsyncExitStack() as closing:
        try:
            opened = await closing.enter_async_context(sandboxes.open("small", Limits(memory=200 * MIB)))
        except SandboxUnavailable as missing:
            pytest.skip(f"needs bubblewrap: {missing}")
        if any("memory" in shortcoming for shortcoming in sandboxes.isolation.shortcomings):
            pytest.skip("needs a control group that bounds memory")
        yield opened


@pytest_asyncio.fixture(loop_scope="session")
async def repository(sandbox: Sandbox) -> AsyncIterator[Repository]:
    """Make a fresh candidate with these files."""
    async with AsyncExitStack() as closing:

        async def make(files: Mapping[str, str]) -> Workspace:
            workspace = await closing.enter_async_context(sandbox.candidate())
            for name, text in files.items():
                await workspace.write(name, text.encode())
            return workspace

        yield make


@pytest.fixture
def run_check(sandbox: Sandbox, repository: Repository) -> RunCheck:
    """Run a command in a fresh repository of these files."""
    runner = Runner(sandbox)

    async def run(
        files: Mapping[str, str],
        command: str = "pytest",
        reader: Reader = "pytest",
        *,
        env: Mapping[str, str] | None = None,
        only: frozenset[VerdictId] | None = None,
        timeout: float = 60.0,
    ) -> CheckRun:
        check = Check("tests", command, reader, env=env or {})
        return await runner.run(await repository(files), check, only=only, timeout=timeout)

    return run
