"""What people and GitHub do while an attempt works: nothing is lost, doubled or leaked."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from copy import copy
from dataclasses import replace
from datetime import timedelta

import pytest

from agent.contract.outcome import Outcome
from app.attempt.story import heal
from app.github.client import GitHub
from app.store.values import Attempt
from tests.app.plant import HASTY, NAME, Plant
from tests.app.requests import MovableClock, taken
from tests.standins.sockets import silent


async def disturbed(plant: Plant, path: str, what: Callable[[], Awaitable[None] | None], method: str = "GET") -> Attempt:
    """The end of an attempt on a broken commit. `what` happens once, right before a request for `path`."""
    done: list[str] = []

    async def disturb(_method: str, asked: str) -> None:
        if not done:
            done.append(asked)
            if (waited := what()) is not None:
                await waited

    attempt_id = await taken(plant.store, replace(plant.request, head_sha=await plant.broken()))
    plant.github.faults.on(method, f"/repos/{NAME}/{path}", disturb, "before")
    await heal(attempt_id, plant.deps)
    assert done
    assert await plant.store.due() == []
    return await plant.attempt(attempt_id)


async def test_an_app_that_is_uninstalled_ends_its_attempt(plant: Plant) -> None:
    """https://docs.github.com/apps/using-github-apps/reviewing-and-modifying-installed-github-apps"""
    attempt = await disturbed(plant, "tarball/*", lambda: plant.github.tell_installation("acme", "deleted"))
    assert (attempt.outcome, attempt.is_reported) == (Outcome.CANCELLED, True)
    assert "the App can no longer see it" in (attempt.reason or "")


async def test_an_app_that_is_suspended_is_told_so(plant: Plant) -> None:
    attempt = await disturbed(plant, "tarball/*", lambda: plant.github.tell_installation("acme", "suspend"))
    assert attempt.outcome is Outcome.CANCELLED
    assert attempt.reason == "The App is suspended on this account."
    assert attempt.next_step == "Unsuspend it in the account's settings, then comment `/heal`."


async def test_a_branch_that_is_renamed_meanwhile_is_not_called_deleted(plant: Plant) -> None:
    attempt = await disturbed(plant, "git/ref/heads/main", lambda: plant.github.rename_branch(NAME, "main", "trunk"))
    assert attempt.outcome is Outcome.SUPERSEDED
    assert "There is no branch main: it was deleted or renamed" in (attempt.reason or "")
    assert plant.shown() == []
    assert not plant.github.pull_requests(NAME, "all")


@pytest.mark.long
async def test_a_branch_that_is_renamed_at_the_last_moment_loses_no_repair(plant: Plant) -> None:
    attempt = await disturbed(plant, "pulls", lambda: plant.github.rename_branch(NAME, "main", "trunk"), "POST")
    assert attempt.outcome is Outcome.REFUSED
    (run,) = plant.github.check_runs(NAME)
    assert run.status == "completed"
    assert "+    return a + b" in run.output["summary"]
    assert not plant.github.pull_requests(NAME, "all")


@pytest.mark.long
async def test_github_that_is_away_for_ten_minutes_costs_no_try_and_doubles_nothing(plant: Plant) -> None:
    attempt_id = await taken(plant.store, plant.request)
    begun = plant.store.clock.now()
    stages = ("actions/runs", "tarball/*", "contents/*", "check-runs/*", "commits/*/check-runs", "git/ref/*")
    for number in range(20):  # one try every 30 s
        plant.github.faults.status("*", f"/repos/{NAME}/{stages[number % len(stages)]}", 502, times=2)
        past = begun - timedelta(seconds=30 * number)
        await plant.change(attempt_id, due_at=None, created_at=past, started_at=past)
        await heal(attempt_id, plant.deps)
        attempt = await plant.attempt(attempt_id)
        assert (attempt.status, attempt.tries) == ("queued", 0)
        assert await plant.store.due() == [], "not before a while"
        plant.github.faults.waiting.clear()

    await plant.change(attempt_id, due_at=None)
    await heal(attempt_id, plant.deps)
    assert (await plant.attempt(attempt_id)).outcome is Outcome.NOTHING_FAILED
    assert plant.shown() == [("completed", "neutral")]


@pytest.mark.long
async def test_an_archive_of_two_gigabytes_is_given_up_in_time(plant: Plant) -> None:
    plant.github.downloads.size = 2 << 30
    attempt_id = await taken(plant.store, plant.request)
    await heal(attempt_id, plant.deps)
    attempt = await plant.attempt(attempt_id)
    assert attempt.outcome is Outcome.REFUSED
    assert "larger than 536870912 bytes" in (attempt.reason or "")


async def test_an_archive_whose_host_is_blocked_is_told_as_such(plant: Plant) -> None:
    """A proxy answers in the host's place: no admin of the repository can change that."""
    plant.github.downloads.status = 403
    attempt_id = await taken(plant.store, plant.request)
    await heal(attempt_id, plant.deps)
    attempt = await plant.attempt(attempt_id)
    assert attempt.outcome is Outcome.ERROR
    assert (attempt.reason or "").startswith(TOLD)
    assert (attempt.reason or "").endswith(" the download from localhost failed with 403.")
    assert attempt.next_step == ALLOW


@pytest.mark.parametrize("status", [404, 410])
async def test_an_archive_that_is_gone_where_it_was_kept_is_no_firewall(plant: Plant, status: int) -> None:
    plant.github.downloads.status = status
    attempt_id = await taken(plant.store, plant.request)
    await heal(attempt_id, plant.deps)
    attempt = await plant.attempt(attempt_id)
    assert attempt.outcome is Outcome.CANCELLED
    assert (attempt.reason or "").startswith(f"{NAME} or the failing commit is gone, ")


async def test_a_host_that_drops_packets_is_waited_for_a_while_and_then_told(plant: Plant) -> None:
    hasty = replace(HASTY, connect=0.1)
    async with GitHub(plant.github.app_id, plant.github.private_key, api_url=plant.github.url, retry_policy=hasty) as client:
        deps = replace(plant.deps, github=client)
        attempt_id = await taken(plant.store, plant.request)
        with silent() as listener:
            plant.github.world.downloads_url = f"http://localhost:{listener.getsockname()[1]}"
            await heal(attempt_id, deps)
            assert (await plant.attempt(attempt_id)).status == "queued"
            await plant.change(attempt_id, due_at=None, started_at=plant.store.clock.now() - timedelta(hours=1))
            await heal(attempt_id, deps)
            assert (await plant.attempt(attempt_id)).status == "queued", "what it waited for before does not count"
            later = copy(plant.store)
            later.clock = MovableClock(plant.store.clock.now() + timedelta(minutes=16))
            await heal(attempt_id, replace(deps, store=later))
    attempt = await plant.attempt(attempt_id)
    assert attempt.outcome is Outcome.ERROR
    assert attempt.reason == f"{TOLD} the host localhost cannot be connected to: no answer in 0.1 s."
    assert attempt.next_step == ALLOW


TOLD = "The commit's files could not be downloaded from `localhost`, to which GitHub redirects:"
ALLOW = (
    "Your code is not the cause. Ask whoever runs Selfheal to let its server reach `localhost` (a firewall or proxy "
    "has to allow it), then comment `/heal`."
)
