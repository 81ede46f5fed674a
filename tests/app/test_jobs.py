"""What GitHub answers on an attempt's way becomes an outcome or a wait, and nothing goes on spinning there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from sqlalchemy import update

from agent.blobs import Blobs
from agent.events import Emit, StepStarted
from agent.task import Budget, NoRepair, Outcome
from app.clock import SystemClock
from app.engine import Case, Engine, without_a_run
from app.github import GitHub, Patience, Repository
from app.jobs import Deps, heal
from app.settings import load
from app.store.models import AttemptRow
from app.store.store import Store, open_store
from app.store.values import Attempt
from sandbox.base import Limits, Sandbox, SandboxUnavailable
from sandbox.choose import open_sandboxes
from tests.app.requests import taken
from tests.standins import github as standin
from webhooks.intake import RepairRequest, RepositoryRef

HASTY = Patience(tries=2, first_delay=0.01, longest_delay=0.02, write_interval=0.0)
NAME = "acme/boiler"


@dataclass(frozen=True, slots=True)
class Plant:
    github: standin.GitHub
    store: Store
    deps: Deps
    request: RepairRequest

    async def attempt(self, attempt_id: str) -> Attempt:
        attempt = await self.store.attempt(attempt_id)
        assert attempt is not None
        return attempt

    async def postponed(self) -> str:
        """An attempt that has begun, and is on show as queued, when GitHub goes away; it is due again at once."""
        attempt_id = await taken(self.store, self.request)
        self.github.faults.status("GET", f"/repos/{NAME}/actions/runs", 502, times=2)
        await heal(attempt_id, self.deps)
        await self.change(attempt_id, due_at=None)
        assert (await self.attempt(attempt_id)).status == "queued"
        assert self.shown() == [("queued", None)]
        return attempt_id

    async def change(self, attempt_id: str, **values: object) -> None:
        async with self.store.database.write() as session:
            await session.execute(update(AttemptRow).where(AttemptRow.id == attempt_id).values(**values))

    def shown(self) -> list[tuple[str, str | None]]:
        return [(run.status, run.conclusion) for run in self.github.check_runs(NAME)]


@pytest.fixture
async def plant(tmp_path: Path) -> AsyncIterator[Plant]:
    """A store, a stand-in with one repository whose newest commit is asked to be healed, and what a worker holds open."""
    async with (
        standin.GitHub() as github,
        open_store(load(data_dir=tmp_path, max_tries=1), SystemClock()) as store,
        GitHub(github.app_id, github.private_key, api_url=github.url, patience=HASTY) as client,
    ):
        made = await github.create_repository(NAME, {"boiler.py": "HOT = True\n"})
        await github.push(NAME, "old", {"notes.txt": "A branch that main has left behind.\n"})
        sha = await github.push(NAME, "main", {"boiler.py": "HOT = False\n"})
        ref = RepositoryRef(made.id, NAME, "main")
        request = RepairRequest("check_run", github.installation("acme").id, ref, sha, "main", title="CI")
        engine = Engine(await open_sandboxes("local", tmp_path), None, InMemorySaver(), Budget(), Limits())
        yield Plant(github, store, Deps(store, client, engine, "w1", 1, ()), request)


async def test_an_attempt_waits_while_github_is_away(plant: Plant) -> None:
    attempt_id = await taken(plant.store, plant.request)
    plant.github.faults.status("GET", f"/repos/{NAME}/*", 502, times=20)

    await heal(attempt_id, plant.deps)

    attempt = await plant.store.attempt(attempt_id)
    assert attempt is not None
    assert (attempt.status, attempt.tries) == ("queued", 0)
    assert await plant.store.due() == []


async def test_a_permission_that_the_app_lacks_is_named(plant: Plant) -> None:
    attempt_id = await taken(plant.store, plant.request)
    plant.github.installation("acme").permissions["checks"] = "read"

    await heal(attempt_id, plant.deps)

    attempt = await plant.store.attempt(attempt_id)
    assert attempt is not None
    assert attempt.outcome is Outcome.REFUSED
    assert "permission" in (attempt.next_step or "")


async def test_a_repository_that_is_gone_ends_its_attempt(plant: Plant) -> None:
    attempt_id = await taken(plant.store, plant.request)
    plant.github.remove_repository(NAME)

    await heal(attempt_id, plant.deps)

    attempt = await plant.store.attempt(attempt_id)
    assert attempt is not None
    assert attempt.outcome is Outcome.CANCELLED
    assert NAME in (attempt.reason or "")


async def test_an_attempt_that_fails_for_good_closes_its_check_run(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    attempt_id = await taken(plant.store, plant.request)

    async def broken(*_: object, **__: object) -> None:
        raise RuntimeError("a bug of ours")

    monkeypatch.setattr(Engine, "heal", broken)

    await heal(attempt_id, plant.deps)

    attempt = await plant.store.attempt(attempt_id)
    assert attempt is not None
    assert attempt.outcome is Outcome.ERROR
    (run,) = plant.github.check_runs(NAME)
    assert (run.status, run.conclusion) == ("completed", "neutral")


async def test_a_commit_without_tests_is_told_so(plant: Plant) -> None:
    attempt_id = await taken(plant.store, plant.request)

    await heal(attempt_id, plant.deps)

    attempt = await plant.store.attempt(attempt_id)
    assert attempt is not None
    assert attempt.outcome is Outcome.NOTHING_FAILED
    (run,) = plant.github.check_runs(NAME)
    assert "test:" in run.output["summary"]


async def test_a_second_command_of_a_busy_head_waits(plant: Plant) -> None:
    first = await taken(plant.store, plant.request)
    async with plant.store.lease(first, "w0"):
        plant.github.add_collaborator(NAME, "maria", "write")
        pull = await plant.github.open_pull(NAME, "main", base="old")
        comment = await plant.github.comment(NAME, pull.number, "maria", "/heal")
        command = replace(plant.request, source="comment", head_sha=None, head_branch=None, sender="maria")
        second = await taken(plant.store, replace(command, pull_number=pull.number, comment_id=comment.id))

        await heal(second, plant.deps)

        waiting = await plant.store.attempt(second)
        assert waiting is not None
        assert (waiting.status, waiting.tries) == ("queued", 0)


@pytest.mark.parametrize(
    ("status", "outcome", "conclusion"),
    [(404, Outcome.CANCELLED, "cancelled"), (403, Outcome.REFUSED, "neutral"), (422, Outcome.ERROR, "neutral")],
)
async def test_what_github_ends_on_the_way_is_shown_there(plant: Plant, status: int, outcome: Outcome, conclusion: str) -> None:
    attempt_id = await taken(plant.store, plant.request)
    plant.github.faults.status("GET", f"/repos/{NAME}/actions/runs", status)

    await heal(attempt_id, plant.deps)

    assert (await plant.attempt(attempt_id)).outcome is outcome
    assert plant.shown() == [("completed", conclusion)]
    assert await plant.store.due() == []


async def test_an_attempt_that_a_webhook_cancels_while_it_waits_is_told(plant: Plant) -> None:
    attempt_id = await plant.postponed()
    await plant.store.cancel(attempt_id, Outcome.SUPERSEDED, "A newer commit was pushed.")
    assert await plant.store.due() == [attempt_id]

    await heal(attempt_id, plant.deps)

    assert plant.shown() == [("completed", "neutral")]
    assert await plant.store.due() == []


async def test_an_attempt_that_is_cancelled_after_its_worker_died_is_told(plant: Plant) -> None:
    attempt_id = await plant.postponed()
    past = plant.store.clock.now() - timedelta(seconds=1)
    await plant.change(attempt_id, status="running", lease_owner="dead", lease_expires_at=past)
    await plant.store.cancel(attempt_id, Outcome.CANCELLED, "Selfheal was removed.")

    await heal(attempt_id, plant.deps)

    assert (await plant.attempt(attempt_id)).outcome is Outcome.CANCELLED
    assert plant.shown() == [("completed", "cancelled")]
    assert await plant.store.due() == []


async def test_an_end_that_cannot_be_told_now_is_told_later(plant: Plant) -> None:
    attempt_id = await plant.postponed()
    await plant.store.cancel(attempt_id, Outcome.SUPERSEDED, "A newer commit was pushed.")
    plant.github.faults.status("GET", f"/repos/{NAME}/commits/*/check-runs", 502, times=2)

    await heal(attempt_id, plant.deps)

    assert plant.shown() == [("queued", None)]
    assert await plant.store.due() == []  # not before a while
    await plant.change(attempt_id, due_at=None)
    assert await plant.store.due() == [attempt_id]
    await heal(attempt_id, plant.deps)
    assert plant.shown() == [("completed", "neutral")]
    assert await plant.store.due() == []


async def test_of_a_repository_that_is_gone_nothing_is_left_to_tell(plant: Plant) -> None:
    attempt_id = await plant.postponed()
    await plant.store.cancel(attempt_id, Outcome.CANCELLED, "Selfheal was removed.")
    plant.github.remove_repository(NAME)

    await heal(attempt_id, plant.deps)

    assert await plant.store.due() == []


async def test_an_expired_log_does_not_keep_a_commit_from_its_repair(plant: Plant) -> None:
    workflow = "name: CI\non: [push]\njobs:\n  tests:\n    runs-on: ubuntu-latest\n    steps:\n      - run: exit 1\n"
    sha = await plant.github.push(NAME, "main", {".github/workflows/ci.yml": workflow})
    await plant.github.settled()
    attempt_id = await taken(plant.store, replace(plant.request, head_sha=sha))
    plant.github.faults.status("GET", f"/repos/{NAME}/actions/jobs/*", 410, times=9)

    await heal(attempt_id, plant.deps)

    attempt = await plant.attempt(attempt_id)
    assert attempt.outcome is not Outcome.CANCELLED
    assert any("unpack" in stored.event.step for stored in await plant.store.timeline(attempt_id) if stored.event.step)


async def test_an_archive_that_is_too_big_is_refused(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    attempt_id = await taken(plant.store, plant.request)
    archive = Repository.archive
    monkeypatch.setattr(Repository, "archive", lambda self, ref: archive(self, ref, limit=10))

    await heal(attempt_id, plant.deps)

    attempt = await plant.attempt(attempt_id)
    assert attempt.outcome is Outcome.REFUSED
    assert "larger than 10 bytes" in (attempt.reason or "")
    assert plant.shown() == [("completed", "neutral")]


@dataclass(frozen=True, slots=True)
class NoSandbox:
    """A machine on which nothing can be opened."""

    retry_after: float | None

    def open(self, label: str, limits: Limits) -> AbstractAsyncContextManager[Sandbox]:
        raise SandboxUnavailable("all slots are in use", self.retry_after)


async def test_a_full_machine_costs_no_try(plant: Plant) -> None:
    attempt_id = await taken(plant.store, plant.request)
    full = replace(plant.deps, engine=replace(plant.deps.engine, sandboxes=NoSandbox(30.0)))

    await heal(attempt_id, full)

    attempt = await plant.attempt(attempt_id)
    assert (attempt.status, attempt.tries) == ("queued", 0)
    assert await plant.store.due() == []


async def test_a_repair_that_could_not_be_published_is_published_without_another_run(plant: Plant) -> None:
    test = "import unittest, calc\n\nclass Tests(unittest.TestCase):\n    def test(self):\n        assert calc.add(2, 3) == 5\n"
    files = {"calc.py": "def add(a, b):\n    return a - b\n", "test_calc.py": test}
    sha = await plant.github.push(NAME, "main", {**files, ".github/selfheal.yml": "test: python -m unittest\n"})
    attempt_id = await taken(plant.store, replace(plant.request, head_sha=sha))
    plant.github.faults.primary_limit("POST", f"/repos/{NAME}/git/refs", reset_in=3600)
    await heal(attempt_id, plant.deps)
    assert (await plant.attempt(attempt_id)).status == "queued"
    await plant.change(attempt_id, due_at=None)

    await heal(attempt_id, replace(plant.deps, engine=replace(plant.deps.engine, sandboxes=NoSandbox(None))))

    attempt = await plant.attempt(attempt_id)
    assert attempt.outcome is Outcome.HEALED, attempt.reason
    assert plant.shown() == [("completed", "success")]
    assert await plant.deps.engine.checkpointer.aget_tuple({"configurable": {"thread_id": attempt_id}}) is None


async def test_progress_that_github_does_not_take_does_not_hold_up_the_work(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt_id = await taken(plant.store, plant.request)
    plant.github.faults.primary_limit("PATCH", f"/repos/{NAME}/check-runs/*", reset_in=50)
    monkeypatch.setattr("app.telling.STEP_SECONDS", 0.1)

    async def stepping(_: Engine, __: Case, *, blobs: Blobs, emit: Emit) -> NoRepair:
        await emit(StepStarted(step="unpack", text="Unpacking the repository"))
        return without_a_run(Outcome.NOTHING_FAILED, "Nothing is red.", "Nothing to do.")

    monkeypatch.setattr(Engine, "heal", stepping)
    async with asyncio.timeout(30):
        await heal(attempt_id, plant.deps)

    assert plant.shown() == [("completed", "neutral")]
