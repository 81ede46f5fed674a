from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from agent.checks import Runner
from agent.task import Check, CheckRun
from tests.agent.folder import Folder, FolderSandbox

RunCheck = Callable[..., Awaitable[CheckRun]]


@pytest.fixture
def run_check(tmp_path: Path) -> RunCheck:
    """Run a command in a fresh repository of these files."""

    async def run(files: dict[str, str], command: str = "pytest", reader: str = "pytest", **options: object) -> CheckRun:
        root, tools = tmp_path / "repo", tmp_path / "tools"
        root.mkdir(exist_ok=True)
        tools.mkdir(exist_ok=True)
        workspace = Folder(root)
        workspace.write_files(files)
        runner = Runner(FolderSandbox(tools))  # type: ignore[arg-type]
        check = Check("tests", command, reader, timeout=float(options.pop("limit", 30)), env=options.pop("env", {}))  # type: ignore[arg-type]
        return await runner.run(workspace, check, **options)  # type: ignore[arg-type]

    return run
