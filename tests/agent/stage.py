"""A sandbox of plain folders and subprocesses for trusted test material, until the `process` sandbox is merged."""

import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from agent.checks import Runner
from agent.events import AnyEvent
from agent.localization import localize
from agent.proposers.base import Situation
from agent.task import Check, CheckRun, Oracle, Policy, Span
from tests.agent.folder import Folder, FolderSandbox


class Base(Folder):
    async def read(self, path: str, limit: int = 1 << 24) -> bytes:
        return (Path(self.root) / path).read_bytes()


class Stage(FolderSandbox):
    """`base` is a folder; candidates are copies."""

    def __init__(self, root: Path, tools: Path) -> None:
        super().__init__(tools)
        self.base = Base(root)

    @asynccontextmanager
    async def candidate(self) -> AsyncIterator[Base]:
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / "repo"
            shutil.copytree(self.base.root, copy, symlinks=True)
            yield Base(copy)


async def situation(
    stage: Stage, command: str = "python -m pytest -q", reader: str = "pytest", seconds: float = 15.0
) -> Situation:
    """Run the tests, take what is red as what must turn green, localise: as the engine does before it asks a rung."""
    check = Check("tests", command, reader, timeout=120)  # type: ignore[arg-type]
    runner = Runner(stage)  # type: ignore[arg-type]
    events: list[AnyEvent] = []

    async def emit(event: AnyEvent) -> None:
        events.append(event)

    async with stage.candidate() as workspace:
        run: CheckRun = await runner.run(workspace, check)  # type: ignore[arg-type]
    oracle = Oracle((check,), {"tests": run.red}, {"tests": run.green})
    suspects: tuple[Span, ...] = await localize(stage, runner, oracle, (run,), emit=emit)  # type: ignore[arg-type]
    assert not events, events
    return Situation(stage, runner, oracle, (run,), suspects, Policy(), emit, seconds)  # type: ignore[arg-type]
