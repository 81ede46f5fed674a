"""What tests of an attempt's story share: a store, a stand-in of GitHub with one repository, what a worker holds open."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from sqlalchemy import update

from agent.contract.budget import Budget
from agent.engine import Engine
from app.attempt.story import Deps, heal
from app.clock import SystemClock
from app.github.client import GitHub
from app.github.retries import RetryPolicy
from app.settings import Settings, load
from app.store.checkpoints.checkpoints import open_checkpoints
from app.store.models import AttemptRow
from app.store.store import Store, open_store
from app.store.values import Attempt
from sandbox.backends import open_sandboxes
from sandbox.base import Limits
from tests.app.requests import taken
from tests.standins import github as standin
from webhooks.intake import RepairRequest, RepositoryRef

HASTY = RetryPolicy(tries=2, first_delay=0.01, longest_delay=0.02, write_interval=0.0)
NAME = "acme/boiler"
TEST = (
    "import unittest\nimport calc\n\nclass Tests(unittest.TestCase):\n    def test(self):\n        assert calc.add(2, 3) == 5\n"
)


def workflow(name: str = "CI", on: str = "push", run: str = "python -m unittest") -> str:
    """A workflow of one job."""
    return f"""\
name: {name}
on: [{on}]
jobs:
  tests:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - run: {run}
"""


@dataclass(frozen=True, slots=True)
class Plant:
    github: standin.GitHub
    settings: Settings
    store: Store
    deps: Deps
    request: RepairRequest

    async def broken(self, configuration: str = "") -> str:
        """A commit on main whose test is red until `-` becomes `+`; with the owners' configuration."""
        files = {"calc.py": "def add(a, b):\n    return a - b\n", "test_calc.py": TEST}
        wishes = {".github/selfheal.yml": f"test: python -m unittest\n{configuration}"}
        return await self.github.push(NAME, "main", {**files, **wishes})

    async def attempt(self, attempt_id: str) -> Attempt:
        attempt = await self.store.attempt(attempt_id)
        assert attempt is not None
        return attempt

    async def postponed(self) -> str:
        """An attempt that has begun, and is on show as queued, when GitHub goes away; it is due again at once."""
        attempt_id = await taken(self.store, self.request)
        self.github.faults.status("GET", f"/repos/{NAME}/contents/.gitattributes", 502, times=2)
        await heal(attempt_id, self.deps)
        await self.change(attempt_id, due_at=None)
        assert (await self.attempt(attempt_id)).status == "queued"
        assert self.shown() == [("queued", None)]
        return attempt_id

    async def change(self, attempt_id: str, **values: object) -> None:
        async with self.store.database.write() as session:
            await session.execute(update(AttemptRow).where(AttemptRow.id == attempt_id).values(**values))

    def shown(self) -> list[tuple[str, str | None]]:
        """On failing commits, not on those of repairs."""
        runs = self.github.check_runs(NAME)
        return [(run.status, run.conclusion) for run in runs if "patch reverted" not in run.output["title"]]


@pytest.fixture
async def plant(tmp_path: Path, database_url: str | None, migrated_sqlite: Path, remembered_runs: None) -> AsyncIterator[Plant]:
    """A store, a stand-in with one repository whose newest commit is asked to be healed, and what a worker holds open.

    What surrounds the runs is looked at, and most repositories are the same: their runs are remembered.
    """
    async with standin.GitHub() as github, AsyncExitStack() as stack:
        settings = load(
            data_dir=tmp_path,
            database_url=database_url,
            max_tries=1,
            model="none",
            github_app_id=github.app_id,
            github_private_key=github.private_key,
            github_api_url=github.url,
        )
        if database_url is None:
            shutil.copy(migrated_sqlite, tmp_path / "selfheal.db")
        store = await stack.enter_async_context(open_store(settings, SystemClock()))
        checkpointer = await stack.enter_async_context(open_checkpoints(settings))
        client = await stack.enter_async_context(
            GitHub(github.app_id, github.private_key, api_url=github.url, retry_policy=HASTY)
        )
        made = await github.create_repository(NAME, {"boiler.py": "HOT = True\n"})
        await github.push(NAME, "old", {"notes.txt": "A branch that main has left behind.\n"})
        sha = await github.push(NAME, "main", {"boiler.py": "HOT = False\n"})
        ref = RepositoryRef(made.id, NAME, "main")
        request = RepairRequest("check_run", github.installation("acme").id, ref, sha, "main", title="CI")
        engine = Engine(await open_sandboxes("local", tmp_path), None, checkpointer, Budget(), Limits())
        yield Plant(github, settings, store, Deps(store, client, engine, "w1", 1, ()), request)
