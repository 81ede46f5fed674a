"""What GitHub answers on an attempt's way becomes an outcome or a wait, and nothing goes on spinning there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from agent.task import Budget, Outcome
from app.clock import SystemClock
from app.engine import Engine
from app.github import GitHub, Patience
from app.jobs import Deps, heal
from app.settings import load
from app.store.store import Store, open_store
from sandbox.base import Limits
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
