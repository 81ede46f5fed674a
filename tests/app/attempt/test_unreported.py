"""What nobody has to be told leaves no trace on GitHub, and hides no failure that counts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.contract.outcome import Outcome
from app.attempt.story import heal
from app.store.values import Attempt
from tests.app.plant import NAME, TEST, Plant, workflow
from tests.app.requests import taken
from webhooks.intake import RERUN, RepairRequest


async def healed(plant: Plant, *requests: RepairRequest) -> Attempt:
    """The attempt that all the requests have joined, after its end."""
    (attempt_id,) = {await taken(plant.store, request) for request in requests}
    await heal(attempt_id, plant.deps)
    assert await plant.store.due() == []
    return await plant.attempt(attempt_id)


async def of_tag(plant: Plant, sha: str) -> RepairRequest:
    """The failed run of a tag."""
    await plant.github.tag(NAME, "v1.2.3", sha)
    await plant.github.settled()
    (run,) = [run for run in plant.github.runs(NAME) if run.head_branch == "v1.2.3"]
    assert run.conclusion == "failure"
    named = replace(plant.request, source="workflow_run", head_sha=sha, head_branch="v1.2.3")
    return replace(named, run_id=run.id, run_attempt=1, title="Release", is_news=True)


async def tagged_commit(plant: Plant) -> str:
    release = workflow("Release", run="exit 1").replace("on: [push]", "on: {push: {tags: ['v*']}}")
    return await plant.github.push(NAME, "main", {".github/workflows/release.yml": release})


async def test_a_failed_run_of_a_tag_says_nothing_on_the_commit(plant: Plant) -> None:
    attempt = await healed(plant, await of_tag(plant, await tagged_commit(plant)))
    assert attempt.outcome is Outcome.SUPERSEDED
    assert "There is no branch v1.2.3" in (attempt.reason or "")
    assert plant.shown() == []


async def test_a_failure_of_a_branch_is_not_lost_behind_that_of_a_tag(plant: Plant) -> None:
    sha = await tagged_commit(plant)
    status = replace(plant.request, source="status", head_sha=sha, head_branch="main", title="ci/jenkins")
    attempt = await healed(plant, await of_tag(plant, sha), status)
    assert attempt.head_branch == "main"
    assert attempt.outcome is not Outcome.SUPERSEDED
    assert len(plant.shown()) == 1


@pytest.mark.parametrize("context", ["codecov/project", "license/cla", "Vercel", "netlify/site/deploy-preview"])
async def test_a_service_that_tests_nothing_says_nothing_on_the_commit(plant: Plant, context: str) -> None:
    assert plant.request.head_sha is not None
    await plant.github.set_status(NAME, plant.request.head_sha, context, "failure")
    attempt = await healed(plant, replace(plant.request, source="status", title=context))
    assert attempt.outcome is Outcome.REFUSED
    assert f"they run no tests: {context}." in (attempt.reason or "")
    assert plant.shown() == []


@pytest.mark.parametrize(
    ("configuration", "key"),
    [
        ("enabled: false\n", "`enabled: true`"),
        ("branches: {ignore: [main]}\n", "`branches`"),
        ("workflows: {ignore: [CI]}\n", "`workflows`"),
    ],
)
async def test_what_the_owners_exclude_says_nothing_on_the_commit(plant: Plant, configuration: str, key: str) -> None:
    sha = await plant.github.push(
        NAME, "main", {".github/selfheal.yml": configuration, ".github/workflows/ci.yml": workflow(run="exit 1")}
    )
    await plant.github.settled()
    request = replace(plant.request, head_sha=sha)
    attempt = await healed(plant, request)
    assert attempt.outcome is Outcome.REFUSED
    assert key in (attempt.next_step or "")
    assert plant.shown() == []

    pressed = await healed(plant, replace(request, title=RERUN, sender="alice", is_news=True))
    assert pressed.id != attempt.id
    assert plant.shown() == [("completed", "neutral")], "a person asked"


async def test_an_old_commit_says_nothing_unless_its_attempt_is_on_show(plant: Plant) -> None:
    shown = await plant.postponed()
    await plant.github.push(NAME, "main", {"boiler.py": "HOT = None\n"})
    await heal(shown, plant.deps)
    assert (await plant.attempt(shown)).outcome is Outcome.SUPERSEDED
    assert plant.shown() == [("completed", "neutral")]

    old = (await plant.github.commits(NAME, "main~2"))[0].sha
    assert (await healed(plant, replace(plant.request, head_sha=old))).outcome is Outcome.SUPERSEDED
    assert len(plant.shown()) == 1


def joining(plant: Plant, request: RepairRequest, branch: str) -> list[str]:
    """The request comes in whenever a worker asks for the branch; the attempts that it joined."""
    joined: list[str] = []

    async def join(*_: str) -> None:
        joined.append(await taken(plant.store, request))

    plant.github.faults.on("GET", f"/repos/{NAME}/git/ref/heads/{branch}", join, "before")
    return joined


async def test_a_failure_that_joins_an_attempt_while_it_ends_is_not_lost(plant: Plant) -> None:
    sha = await tagged_commit(plant)
    attempt_id = await taken(plant.store, await of_tag(plant, sha))
    status = replace(plant.request, source="status", head_sha=sha, head_branch="main", title="ci/jenkins")
    joined = joining(plant, status, "v1.2.3")
    await heal(attempt_id, plant.deps)
    assert set(joined) == {attempt_id}
    assert await plant.store.due() == [attempt_id]

    await heal(attempt_id, plant.deps)
    assert (await plant.attempt(attempt_id)).head_branch == "main"
    assert len(plant.shown()) == 1


async def of_pull(plant: Plant, files: dict[str, str]) -> tuple[RepairRequest, int]:
    """The failed run of a pull request, and its number."""
    sha = await plant.github.push(NAME, "topic", files)
    pull = await plant.github.open_pull(NAME, "topic")
    of_topic = replace(plant.request, source="workflow_run", head_sha=sha, head_branch="topic")
    return replace(of_topic, run_id=1, run_attempt=1, workflow_id=2, is_news=True), pull.number


async def test_a_closed_pull_request_says_nothing_unless_its_attempt_is_on_show(plant: Plant) -> None:
    request, number = await of_pull(plant, {"boiler.py": "HOT = None\n"})
    plant.github.faults.status("GET", f"/repos/{NAME}/contents/.gitattributes", 502, times=2)
    shown = await taken(plant.store, request)
    await heal(shown, plant.deps)
    await plant.change(shown, due_at=None)
    assert plant.shown() == [("queued", None)]
    await plant.github.close_pull(NAME, number)
    await heal(shown, plant.deps)
    assert (await plant.attempt(shown)).outcome is Outcome.CANCELLED
    assert plant.shown() == [("completed", "neutral")]

    again = replace(request, run_id=2)
    ended = await healed(plant, again)
    assert (ended.outcome, ended.id == shown) == (Outcome.CANCELLED, False)
    assert len(plant.shown()) == 1


async def test_a_person_who_joins_the_attempt_of_a_closed_pull_request_is_heard(plant: Plant) -> None:
    request, number = await of_pull(plant, {"boiler.py": "HOT = None\n"})
    await plant.github.close_pull(NAME, number)
    attempt_id = await taken(plant.store, request)
    pressed = replace(request, source="check_run", run_id=None, run_attempt=None, workflow_id=None, title=RERUN, sender="alice")
    joined = joining(plant, pressed, "topic")
    await heal(attempt_id, plant.deps)
    assert set(joined) == {attempt_id}
    assert await plant.store.due() == [attempt_id]


@pytest.mark.long
async def test_a_pull_request_that_is_closed_during_its_repair_gets_none(plant: Plant) -> None:
    broken = {"calc.py": "def add(a, b):\n    return a - b\n", "test_calc.py": TEST}
    await plant.github.push(NAME, "main", {".github/selfheal.yml": "test: python -m unittest\n"})
    request, number = await of_pull(plant, broken)

    async def close(*_: str) -> None:
        await plant.github.close_pull(NAME, number)

    plant.github.faults.on("GET", f"/repos/{NAME}/tarball/*", close, "before")
    attempt = await healed(plant, request)
    assert attempt.outcome is Outcome.CANCELLED
    assert attempt.reason == f"Pull request #{number} was closed without a merge, so its branch is not repaired."
    assert [pull.number for pull in plant.github.pull_requests(NAME, "all")] == [number]
    assert plant.shown() == [("completed", "neutral")]
