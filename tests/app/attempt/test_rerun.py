"""Signs of infrastructure start no repair, and failed jobs run again once where that is wished; a person's word counts more."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.case import Case, without_a_run
from agent.contract.blobs import Blobs
from agent.contract.events import Emit, StepStarted
from agent.contract.memory import Memory
from agent.contract.outcome import Flakiness, NoRepair, Outcome
from agent.contract.question import Reply
from agent.contract.verdicts import VerdictId
from agent.engine import Engine
from app.attempt.story import Deps, heal
from app.github.types import RERUNNING
from app.store.values import Attempt
from tests.app.plant import NAME, Plant
from tests.app.requests import taken
from webhooks.intake import RepairRequest
from webhooks.triggers import decide

WORKFLOW = """\
name: CI
on: [push]
jobs:
  tests:
    runs-on: ubuntu-latest
    steps:
      - name: Install
        run: |
          echo "{said}"
          exit 1
"""
GONE = "fatal: unable to access 'https://github.com/acme/boiler/': The requested URL returned error: 503"
RERUN = f"POST /repos/{NAME}/actions/runs/"


async def red(plant: Plant, said: str = GONE, wishes: str = "") -> RepairRequest:
    """A red run of CI whose log says so; what asks for its repair."""
    files = {".github/workflows/ci.yml": WORKFLOW.format(said=said)}
    if wishes:
        files[".github/selfheal.yml"] = wishes
    sha = await plant.github.push(NAME, "main", files)
    await plant.github.settled()
    run = next(run for run in plant.github.runs(NAME) if run.head_sha == sha)
    return replace(plant.request, source="workflow_run", head_sha=sha, run_id=run.id)


async def ended(plant: Plant, request: RepairRequest, deps: Deps | None = None) -> Attempt:
    attempt_id = await taken(plant.store, request)
    await heal(attempt_id, deps or plant.deps)
    await plant.github.settled()
    return await plant.attempt(attempt_id)


def reruns(plant: Plant) -> int:
    return sum(request.startswith(RERUN) and "rerun-failed-jobs" in request for request in plant.github.requests)


async def test_a_run_that_the_network_failed_reaches_no_sandbox(plant: Plant) -> None:
    attempt = await ended(plant, await red(plant))
    assert attempt.outcome is Outcome.INFRASTRUCTURE
    assert GONE in (attempt.reason or "")
    steps = [one.event.step for one in await plant.store.timeline(attempt.id) if isinstance(one.event, StepStarted)]
    assert steps == ["gather", "publish"]
    (run,) = plant.github.check_runs(NAME)
    assert (run.conclusion, "error: 503" in run.output["summary"]) == ("neutral", True)
    assert reruns(plant) == 0, "nobody asked for it"


@pytest.mark.long
async def test_a_log_of_failing_tests_does(plant: Plant) -> None:
    attempt = await ended(plant, await red(plant, "FAILED test_a.py::test_b - assert 1 == 2"))
    assert attempt.outcome is not Outcome.INFRASTRUCTURE or "fault" not in (attempt.reason or "")


@pytest.mark.long
async def test_a_persons_command_tries_nevertheless_and_says_so(plant: Plant) -> None:
    request = await red(plant)
    plant.github.add_collaborator(NAME, "maria", "write")
    pull = await plant.github.open_pull(NAME, "main", base="old")
    comment = await plant.github.comment(NAME, pull.number, "maria", "/heal")
    command = replace(request, source="comment", head_sha=None, head_branch=None, sender="maria", run_id=None)
    attempt = await ended(plant, replace(command, pull_number=pull.number, comment_id=comment.id))
    steps = [one.event.step for one in await plant.store.timeline(attempt.id) if isinstance(one.event, StepStarted)]
    assert "unpack" in steps
    summaries = [run.output["summary"] for run in plant.github.check_runs(NAME)]
    assert any("Requested by a person" in summary and "error: 503" in summary for summary in summaries)


@pytest.mark.parametrize("by", ["repository", "operator"])
async def test_the_failed_jobs_run_again_once(plant: Plant, by: str) -> None:
    deps = replace(plant.deps, rerun="once") if by == "operator" else plant.deps
    request = await red(plant, wishes="rerun: once\n" if by == "repository" else "")
    attempt = await ended(plant, request, deps)
    assert "reran the failed jobs of CI once. If they fail again" in (attempt.next_step or "")
    run = next(run for run in plant.github.runs(NAME) if run.id == request.run_id)
    assert (run.attempt, run.conclusion) == (2, "failure")
    plant.github.raise_violations()

    run.attempt = 1  # and GitHub's own count lost
    again = await ended(plant, request, deps)
    assert again.id == attempt.id, "one automatic attempt a head"
    assert reruns(plant) == 1


async def test_the_repositorys_no_counts_more(plant: Plant) -> None:
    await ended(plant, await red(plant, wishes="rerun: never\n"), replace(plant.deps, rerun="once"))
    assert reruns(plant) == 0


async def test_a_run_that_was_run_again_by_a_person_is_left_alone(plant: Plant) -> None:
    request = await red(plant, wishes="rerun: once\n")
    run = next(run for run in plant.github.runs(NAME) if run.id == request.run_id)
    run.attempt = 2
    for job in run.jobs:
        job.attempt = 2
    attempt = await ended(plant, request)
    assert "was already rerun (GitHub's run attempt 2)" in (attempt.next_step or "")
    assert reruns(plant) == 0


async def test_what_was_asked_before_a_worker_died_is_not_asked_again(plant: Plant) -> None:
    request = await red(plant, wishes="rerun: once\n")
    attempt_id = await taken(plant.store, request)
    assert request.run_id is not None
    assert await plant.store.claim_rerun(attempt_id, request.repository.id, request.run_id)
    attempt = await ended(plant, request)
    assert "has already asked GitHub to rerun" in (attempt.next_step or "")
    assert reruns(plant) == 0


async def test_an_app_that_may_not_rerun_says_so_and_ends_as_ever(plant: Plant) -> None:
    request = await red(plant, wishes="rerun: once\n")
    plant.github.installation("acme").permissions["actions"] = "read"
    attempt = await ended(plant, request)
    assert attempt.outcome is Outcome.INFRASTRUCTURE
    assert "could not be rerun" in (attempt.next_step or "")
    assert "actions=write" in (attempt.next_step or "")


async def test_what_comes_and_goes_is_run_again_too(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    cases: list[Case] = []

    async def flaky(
        _: Engine, case: Case, *, blobs: Blobs, emit: Emit, reply: Reply | None = None, memory: Memory | None = None
    ) -> NoRepair:
        cases.append(case)
        found = Flakiness((VerdictId("test_a.py::test_b"),), 3, 12, "order")
        return replace(without_a_run(Outcome.FLAKY, "It comes and goes.", "Mend it."), flakiness=found)

    monkeypatch.setattr(Engine, "heal", flaky)
    said = '"\n          echo "'.join(
        [
            "Using --randomly-seed=4711",
            "=== short test summary info ===",
            "FAILED test_a.py::test_b - assert 1 == 2",
            "=== 1 failed in 0.10s ===",
        ]
    )
    request = await red(plant, said, "rerun: once\n")
    attempt = await ended(plant, request)
    assert (attempt.outcome, reruns(plant)) == (Outcome.FLAKY, 1)
    (job,) = cases[0].jobs
    assert job.seed == 4711  # type: ignore[union-attr]
    assert job.started is not None  # type: ignore[union-attr]
    assert "test_a.py::test_b" in job.reported_ids  # type: ignore[union-attr]
    assert not cases[0].heals_flakiness


async def test_our_own_rerun_that_fails_again_is_no_news(plant: Plant) -> None:
    request = await red(plant)
    plant.github.installation("acme").permissions["actions"] = "write"
    repository = plant.deps.github.repository(request.installation_id, request.repository, RERUNNING)
    await repository.rerun_failed_jobs(request.run_id or 0)
    await plant.github.settled()
    told = [
        delivery for delivery in plant.github.deliveries if (delivery.event, delivery.action) == ("workflow_run", "completed")
    ]
    run = told[-1].payload["workflow_run"]
    assert (run["run_attempt"], run["triggering_actor"]["login"]) == (2, plant.github.world.bot.login)
    decision = decide("workflow_run", told[-1].body, plant.github.app_id)[1]
    assert isinstance(decision, RepairRequest)
    assert not decision.is_news
