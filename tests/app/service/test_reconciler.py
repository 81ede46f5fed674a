"""A failing run of which no webhook came is taken up once, and only if its webhook would have been."""

from __future__ import annotations

import asyncio
import json
from copy import copy
from datetime import timedelta

import pytest
from structlog.testing import capture_logs

from app.queue.queue import Queue
from app.service import reconciler
from app.service.intake import StoreIntake
from app.service.reconciler import take_up_missed
from app.store.store import Store
from tests.app.plant import NAME, Plant, workflow
from tests.app.requests import MovableClock, delivery
from tests.standins.github.state import WorkflowRun, now
from webhooks.triggers import decide

RED = {".github/workflows/ci.yml": workflow(run="exit 1")}
HOUR = timedelta(hours=1)


def intake(plant: Plant) -> StoreIntake:
    """Without Redis: the sweeper enqueues what was committed."""
    return StoreIntake(plant.store, Queue.to("redis://127.0.0.1:1", plant.settings))


def at(plant: Plant, later: timedelta) -> Store:
    store = copy(plant.store)
    store.clock = MovableClock(now() + later)
    return store


async def looked(plant: Plant, later: timedelta = HOUR) -> int:
    """How many runs a look takes up, `later` than now."""
    return await take_up_missed(plant.deps.github, at(plant, later), intake(plant))


async def broken(plant: Plant, branch: str = "main") -> WorkflowRun:
    """A push whose run fails. No webhook is configured."""
    sha = await plant.github.push(NAME, branch, RED, f"Break {branch}")
    await plant.github.settled()
    return next(run for run in plant.github.runs(NAME) if run.head_sha == sha)


@pytest.fixture
async def known(plant: Plant) -> Plant:
    """A look has found the repository."""
    assert await looked(plant, timedelta()) == 0
    return plant


async def test_it_becomes_one_attempt(known: Plant) -> None:
    run = await broken(known)
    assert await looked(known, timedelta()) == 0, "its webhook may still be on its way"
    assert await looked(known) == 1
    (attempt,) = await known.store.attempts()
    assert (attempt.head_sha, attempt.head_branch, attempt.trigger) == (run.head_sha, "main", "automatic")
    (request,) = attempt.requests
    assert (request.run_id, request.run_attempt, request.title) == (run.id, 1, "CI")
    assert attempt.repository == known.request.repository
    assert await known.store.due() == [attempt.id]

    assert await looked(known) == 0
    assert len((await known.attempt(attempt.id)).requests) == 1


@pytest.mark.parametrize("has_ended", [False, True])
async def test_a_webhook_that_comes_after_all_joins_the_attempt(known: Plant, has_ended: bool) -> None:
    await broken(known)
    assert await looked(known) == 1
    (attempt,) = await known.store.attempts()
    if has_ended:
        await known.change(attempt.id, status="ended", outcome="gave_up", ended_at=now(), gathered_at=now())
    (late,) = [each for each in known.github.deliveries if (each.event, each.action) == ("workflow_run", "completed")]
    _, decision = decide("workflow_run", json.dumps(late.payload).encode())
    receipt = await intake(known).take(delivery(late.guid), decision)
    assert receipt.attempt_id == attempt.id
    assert len(await known.store.attempts()) == 1


async def test_a_run_whose_webhook_came_is_not_asked_about(known: Plant) -> None:
    await broken(known)
    (came,) = [each for each in known.github.deliveries if (each.event, each.action) == ("workflow_run", "completed")]
    await intake(known).take(delivery(came.guid), decide("workflow_run", json.dumps(came.payload).encode())[1])
    before = len(known.github.requests)
    assert await looked(known) == 0
    assert not [request for request in known.github.requests[before:] if "/git/ref/" in request]
    (attempt,) = await known.store.attempts()
    assert len(attempt.requests) == 1


async def test_two_workers_that_look_at_once_take_it_up_once(known: Plant) -> None:
    await broken(known)
    await broken(known, "topic")
    assert sum(await asyncio.gather(*(looked(known) for _ in range(4)))) == 2
    attempts = await known.store.attempts()
    assert sorted(attempt.head_branch or "" for attempt in attempts) == ["main", "topic"]
    assert [len(attempt.requests) for attempt in attempts] == [1, 1]


async def test_killed_in_the_middle_the_next_look_takes_up_the_rest(known: Plant) -> None:
    await broken(known)
    killed = asyncio.Event()
    looking = asyncio.create_task(looked(known))

    async def kill(method: str, path: str) -> None:
        if not killed.is_set():
            killed.set()
            looking.cancel()
            await asyncio.wait([looking])

    known.github.faults.on("GET", f"/repos/{NAME}/git/ref/heads/main", kill)
    with pytest.raises(asyncio.CancelledError):
        await looking
    assert await known.store.attempts() == []
    assert await looked(known) == 1
    assert len(await known.store.attempts()) == 1


async def test_all_that_failed_at_a_commit_is_one_attempt(known: Plant) -> None:
    both = {**RED, ".github/workflows/lint.yml": workflow("Lint", run="exit 1")}
    await known.github.push(NAME, "main", both)
    await known.github.settled()
    assert await looked(known) == 2
    (attempt,) = await known.store.attempts()
    assert sorted(request.title for request in attempt.requests) == ["CI", "Lint"]


async def test_a_rerun_by_a_person_that_failed_anew_is_a_further_attempt(known: Plant) -> None:
    run = await broken(known)
    assert await looked(known) == 1
    (first,) = await known.store.attempts()
    await known.change(first.id, status="ended", outcome="gave_up", ended_at=now(), gathered_at=now())
    known.github.runner.rerun_failed(known.github.repository(NAME), run)
    await known.github.settled()
    assert await looked(known) == 1
    assert [attempt.number for attempt in await known.store.attempts()] == [2, 1]


@pytest.mark.parametrize("branch", ["selfheal/topic-1", "gh-readonly-queue/main/pr-1-abc"])
async def test_a_branch_whose_webhooks_are_ignored_is_left_alone(known: Plant, branch: str) -> None:
    await broken(known, branch)
    assert await looked(known) == 0


async def test_a_run_that_tests_no_commit_is_left_alone(known: Plant) -> None:
    run = await broken(known)
    run.event = "issue_comment"
    assert await looked(known) == 0


async def test_a_run_of_a_fork_is_left_alone(known: Plant) -> None:
    run = await broken(known)
    run.head_repository = await known.github.fork(NAME, "mallory")
    assert await looked(known) == 0


async def test_a_commit_that_is_not_the_newest_is_left_alone(known: Plant) -> None:
    await broken(known)
    await known.github.push(NAME, "main", {".github/workflows/ci.yml": None})
    await broken(known, "gone")
    await known.github.repository(NAME).git.run("update-ref", "-d", "refs/heads/gone")
    assert await looked(known) == 0


async def test_what_failed_before_selfheal_knew_the_repository_is_left_alone(plant: Plant) -> None:
    await broken(plant)
    await asyncio.sleep(1.1)  # GitHub's times are whole seconds
    assert await looked(plant, timedelta()) == 0
    assert await looked(plant) == 0
    assert await plant.store.attempts() == []


async def test_a_repository_that_changed_while_the_service_was_down_is_looked_at(plant: Plant) -> None:
    assert await looked(plant, -HOUR) == 0
    await broken(plant)
    plant.github.repository(NAME).private = True
    plant.github.repository(NAME).name = "kettle"
    assert await looked(plant) == 1
    (attempt,) = await plant.store.attempts()
    assert (attempt.repository.full_name, attempt.repository.private) == ("acme/kettle", True)


async def test_what_failed_more_than_a_day_ago_is_left_alone(plant: Plant) -> None:
    assert await looked(plant, -timedelta(days=9)) == 0
    old, new = await broken(plant, "old-failure"), await broken(plant, "new-failure")
    old.created, new.created = now() - timedelta(hours=24), now() - timedelta(hours=22)
    assert await looked(plant) == 1
    (attempt,) = await plant.store.attempts()
    assert attempt.head_branch == "new-failure"


async def test_a_suspended_installation_is_not_asked_about(known: Plant) -> None:
    await broken(known)
    known.github.installation("acme").suspended = now()
    before = len(known.github.requests)
    assert await looked(known) == 0
    assert known.github.requests[before:] == ["GET /app/installations > 200"]


async def test_a_repository_that_refuses_does_not_hide_the_others(known: Plant) -> None:
    await known.github.create_repository("acme/closed", {"notes.txt": "x\n"})
    assert await looked(known, timedelta()) == 0
    known.github.faults.status("GET", "/repos/acme/closed/actions/runs", 403)
    await broken(known)
    assert await looked(known) == 1
    assert "GET /repos/acme/closed/actions/runs > 403" in known.github.requests


async def test_only_the_repositories_that_were_pushed_last_are_asked_about(
    known: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconciler, "_MOST_REPOSITORIES", 1)
    await known.github.create_repository("acme/idle", {"notes.txt": "x\n"})
    known.github.repository("acme/idle").pushed -= HOUR
    await broken(known)
    before = len(known.github.requests)
    assert await looked(known) == 1
    assert not [request for request in known.github.requests[before:] if "acme/idle" in request]


async def test_an_account_that_does_not_grant_actions_costs_one_request(known: Plant) -> None:
    del known.github.installation("acme").permissions["actions"]
    await known.github.create_repository("acme/second", {"a.txt": "x\n"})
    assert await looked(known, timedelta()) == 0
    before = len(known.github.requests)
    with capture_logs() as logs:
        assert await looked(known) == 0
    assert sum("/actions/runs" in request for request in known.github.requests[before:]) == 1
    assert [entry["account"] for entry in logs if entry["log_level"] == "warning"] == ["acme"]
