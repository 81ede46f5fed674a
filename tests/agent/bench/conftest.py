from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from agent.bench.lab import Labs
from sandbox.base import InstallFailed, Limits, Packages, SandboxUnavailable
from sandbox.install.package_index import configured
from sandbox.install.packages import PackageStore
from sandbox.local import LocalSandboxes


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def labs(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Labs]:
    """Real sandboxes, with pytest at hand."""
    folder = tmp_path_factory.mktemp("labs")
    sandboxes = LocalSandboxes(folder / "open", PackageStore(folder / "wheels", await configured()))
    try:
        async with sandboxes.open("probe") as sandbox:
            await sandbox.install(Packages(requirements=("pytest",)))
    except (SandboxUnavailable, InstallFailed) as missing:
        pytest.skip(f"needs bubblewrap and a package index: {missing}")
    yield Labs(sandboxes, Limits())
    assert not list(Path(folder / "open").glob("*")), "every lab is closed"
