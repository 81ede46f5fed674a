"""One story at a time: a repository on the stand-in, something that happens to it, and how the attempt ended."""

from __future__ import annotations

import asyncio
import textwrap
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from agent.contract.events import Proposed, StepStarted
from agent.contract.outcome import Outcome
from app.clock import SystemClock
from app.settings import load
from app.store.store import Store, open_store
from app.store.values import Attempt
from tests.standins.github import GitHub
from tests.standins.github.state import PullRequest
from tests.story.service import Service, running

# Leases short enough for a test to see a takeover, long enough for a machine that is busy.
FAST = {"SELFHEAL_LEASE_SECONDS": "6", "SELFHEAL_SWEEP_SECONDS": "1", "SELFHEAL_MODEL": "none", "SELFHEAL_MAX_SECONDS": "90"}
PATIENCE = 200.0  # seconds until an attempt must have ended
WORKFLOW = """\
name: CI
on: {on}
jobs:
  tests:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - name: Test
        run: {command}
"""
PYTEST = "python -m pytest -q -p no:cacheprovider"


@dataclass(frozen=True, slots=True)
class Story:
    """The running service with everything around it; each test works in a repository of its own."""

    github: GitHub
    service: Service
    store: Store

    async def repository(
        self, full_name: str, files: Mapping[str, str | bytes], command: str = PYTEST, on: str = "[push]"
    ) -> None:
        """A repository whose workflow runs `command`, by default on every push."""
        workflow = WORKFLOW.format(command=command, on=on)
        tree: dict[str, str | bytes | None] = {".github/workflows/ci.yml": workflow, **tidy(files)}
        await self.github.create_repository(full_name, tree)

    async def push(self, full_name: str, files: Mapping[str, str | bytes | None], branch: str = "main") -> str:
        """Push and wait until its CI has run and its webhooks are delivered."""
        sha = await self.github.push(full_name, branch, tidy(files), "Change it")
        await self.delivered(full_name, sha)
        return sha

    async def delivered(self, full_name: str, sha: str) -> None:
        """Wait until the completed run of a commit was answered by the service."""

        def answered() -> bool:
            return any(
                delivery.event == "workflow_run"
                and delivery.action == "completed"
                and delivery.status_code == 202
                and delivery.payload["workflow_run"]["head_sha"] == sha
                for delivery in self.github.deliveries
            )

        await until(answered, f"no completed run of {full_name}@{sha[:10]} was delivered")

    async def proposals(self, attempt: Attempt) -> list[Proposed]:
        """What was proposed in an attempt, in order."""
        return [stored.event for stored in await self.store.timeline(attempt.id) if isinstance(stored.event, Proposed)]

    async def ended(self, full_name: str, count: int = 1, seconds: float = PATIENCE) -> Attempt:
        """The newest attempt of a repository, once it has `count` attempts and all of them have ended."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            attempts = await self.store.attempts(repository=full_name)
            if len(attempts) >= count and all(attempt.status == "ended" for attempt in attempts):
                return attempts[0]
            await asyncio.sleep(0.1)
        raise AssertionError(f"no attempt of {full_name} ended:\n{self.service.log('worker')[-3000:]}")

    async def reaches(self, full_name: str, step: str) -> None:
        """Wait until the repository's newest attempt has begun a step."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            for attempt in await self.store.attempts(repository=full_name, limit=1):
                timeline = await self.store.timeline(attempt.id)
                if any(isinstance(stored.event, StepStarted) and stored.event.step == step for stored in timeline):
                    return
            await asyncio.sleep(0.05)
        raise AssertionError(f"{full_name} never reached {step}")

    async def leaves_nothing(self) -> None:
        """No sandbox of the service is left on disk, and no process that sees one."""
        folder = self.service.folder / "data" / "sandboxes" / "open"
        await until(lambda: not any(folder.glob("*")), f"left in {folder}: {list(folder.glob('*'))}", seconds=30)
        assert not _processes_that_see(folder)

    async def healed(self, full_name: str) -> PullRequest:
        """The one pull request of a repository whose attempt ended as healed."""
        attempt = await self.ended(full_name)
        assert attempt.outcome is Outcome.HEALED, f"{attempt.outcome}: {attempt.reason}"
        (pull,) = self.github.pull_requests(full_name, state="all")
        return pull


@asynccontextmanager
async def told(
    folder: Path, variables: Mapping[str, str] = FAST, *, database_url: str | None = None, enterprise: bool = False
) -> AsyncIterator[Story]:
    """Everything that a story needs, in `folder` and that database (default: SQLite there), for the length of a block."""
    if database_url is not None:
        variables = {**variables, "SELFHEAL_DATABASE_URL": database_url}
    async with (
        GitHub(enterprise=enterprise) as github,
        running(github, folder, variables) as service,
        open_store(load(data_dir=folder / "data", database_url=database_url), SystemClock()) as store,
    ):
        yield Story(github, service, store)


def tidy(files: Mapping[str, str | bytes | None]) -> dict[str, str | bytes | None]:
    """Files as they are written in tests: indented with the test."""
    return {path: textwrap.dedent(text) if isinstance(text, str) else text for path, text in files.items()}


async def until(condition: Callable[[], bool], otherwise: str, seconds: float = PATIENCE) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, otherwise
        await asyncio.sleep(0.05)


def _processes_that_see(folder: Path) -> list[str]:
    """Processes in whose mount table the folder is: those of its sandboxes."""
    found = []
    for table in Path("/proc").glob("[0-9]*/mountinfo"):
        try:
            if str(folder) in table.read_text():
                found.append(table.parent.name)
        except OSError:
            continue  # it has just ended
    return found
