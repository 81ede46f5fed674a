"""Our pull request is closed, with a sentence, once a person has turned the branch green; never for less."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from agent.contract.outcome import Outcome
from app.github.client import GitHub
from app.github.errors import Unavailable
from app.github.types import PUBLISHING, CheckOutput, CheckReport
from app.service.needless import Known, close_needless, tidy_for_ever, update_outdated
from app.stopping import cancel_and_wait
from app.store import looks
from app.store.store import Store
from app.store.values import PullRequestRecord
from tests.app.plant import NAME, TEST, Plant, workflow
from tests.app.requests import taken
from tests.app.waiting import until
from tests.standins import github as standin
from tests.standins.github.state import PullRequest
from tests.tiers import long_but

OURS = "selfheal/topic-1"
BROKEN, FIXED = "def add(a, b):\n    return a - b\n", "def add(a, b):\n    return b + a\n"


async def looked(plant: Plant) -> int:
    """How many pull requests one look closes; GitHub must have refused nothing."""
    before = len(plant.github.requests)
    closed = await close_needless(plant.deps.github, plant.store)
    assert not [request for request in plant.github.requests[before:] if int(request.rpartition(" ")[2]) >= 400]
    return closed


async def opened(plant: Plant, sha: str, branch: str, ours: str, title: str = "CI") -> PullRequest:
    """Our open pull request for `branch`, whose commit `sha` failed in the check run `title`."""
    await plant.github.push(NAME, ours, {"calc.py": FIXED}, "Heal CI: `-` becomes `+`\n\nSelfheal-Attempt: one", base=branch)
    pull = await plant.github.open_pull(NAME, ours, branch, body="- **Proof:** 1 failing → 1 passing\n", login="selfheal[bot]")
    attempt_id = await taken(plant.store, replace(plant.request, head_sha=sha, head_branch=branch, title=title))
    async with plant.store.lease(attempt_id, "w1") as lease:
        await lease.record_pull_request(PullRequestRecord(pull.number, ours, "https://github.test/pull"), 0.9)
        await lease.end(Outcome.HEALED, "Opened a pull request.", "Review it.", reported=True)
    return pull


@pytest.fixture
async def repair(plant: Plant) -> PullRequest:
    """Our open pull request for the branch `topic`, whose workflow is red."""
    files = {"calc.py": BROKEN, "test_calc.py": TEST, ".github/workflows/ci.yml": workflow()}
    sha = await plant.github.push(NAME, "topic", files)
    await plant.github.settled()
    pull = await opened(plant, sha, "topic", OURS)
    assert await looked(plant) == 0, "the branch is red"
    return pull


async def test_it_is_closed_when_a_person_repaired_the_branch(plant: Plant, repair: PullRequest) -> None:
    green = await plant.github.push(NAME, "topic", {"calc.py": FIXED})
    assert await looked(plant) == 0, "its workflow still runs"
    await plant.github.settled()
    assert await looked(plant) == 1
    assert repair.state == "closed"
    assert repair.body.startswith(f"**Closed:** CI of `topic` is green at `{green[:10]}` without this repair.")
    assert "**Proof:**" in repair.body
    assert OURS not in await plant.github.branches(NAME)

    assert await looked(plant) == 0
    assert await plant.store.attempts_with_open_pull_request() == []


async def test_a_further_look_needs_no_further_token_and_reads_what_did_not_change_for_free(
    plant: Plant, repair: PullRequest
) -> None:
    known: Known = {}
    await close_needless(plant.deps.github, plant.store, known)
    before = len(plant.github.requests)
    assert await close_needless(plant.deps.github, plant.store, known) == 0
    again = [request for request in plant.github.requests[before:] if not request.startswith("GET") or request.endswith("200")]
    assert len(plant.github.requests) > before
    assert again == []


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(
            {"calc.py": FIXED, ".github/workflows/lint.yml": workflow("Lint", run="exit 1")}, id="another workflow is red"
        ),
        pytest.param(
            {".github/workflows/ci.yml": None, ".github/workflows/docs.yml": workflow("Docs", run="exit 0")},
            id="the workflow that failed did not run again",
        ),
    ],
)
async def test_it_stays_while(plant: Plant, repair: PullRequest, change: standin.Files) -> None:
    await plant.github.push(NAME, "topic", change)
    await plant.github.settled()
    assert await looked(plant) == 0
    assert repair.state == "open"


@pytest.mark.parametrize("state", long_but(["pending", "failure", "error"], "failure"))
async def test_a_status_that_is_not_green_keeps_it_open(plant: Plant, repair: PullRequest, state: str) -> None:
    green = await plant.github.push(NAME, "topic", {"calc.py": FIXED})
    await plant.github.settled()
    await plant.github.set_status(NAME, green, "ci/jenkins", state)
    assert await looked(plant) == 0
    await plant.github.set_status(NAME, green, "ci/jenkins", "success")
    assert await looked(plant) == 1


async def test_a_check_run_of_another_service_that_still_runs_keeps_it_open(plant: Plant, repair: PullRequest) -> None:
    green = await plant.github.push(NAME, "topic", {"calc.py": FIXED})
    await plant.github.settled()
    plant.github.set_check(NAME, green, "lint")
    assert await looked(plant) == 0
    plant.github.set_check(NAME, green, "lint", "success")
    assert await looked(plant) == 1


@pytest.mark.long
async def test_a_status_that_failed_has_to_turn_green_too(plant: Plant, repair: PullRequest) -> None:
    red = (await plant.github.commits(NAME, "topic"))[0].sha
    await plant.github.set_status(NAME, red, "ci/jenkins", "failure")
    green = await plant.github.push(NAME, "topic", {"calc.py": FIXED})
    await plant.github.settled()
    assert await looked(plant) == 0, "Jenkins has not begun"
    await plant.github.set_status(NAME, green, "ci/jenkins", "success")
    assert await looked(plant) == 1


async def test_a_check_run_that_failed_has_to_turn_green_too(plant: Plant, repair: PullRequest) -> None:
    red = (await plant.github.commits(NAME, "topic"))[0].sha
    plant.github.set_check(NAME, red, "buildkite", "failure")
    green = await plant.github.push(NAME, "topic", {"calc.py": FIXED})
    await plant.github.settled()
    assert await looked(plant) == 0, "the other service has not begun"
    plant.github.set_check(NAME, green, "other part", "success")
    assert await looked(plant) == 0
    assert repair.state == "open"
    plant.github.set_check(NAME, green, "buildkite", "success")
    assert await looked(plant) == 1


@pytest.mark.parametrize("unlike_success", long_but(["neutral", "skipped", "cancelled"], "neutral"))
async def test_where_check_runs_of_another_service_are_all_of_ci(plant: Plant, unlike_success: str) -> None:
    sha = await plant.github.push(NAME, "side", {"calc.py": BROKEN})
    plant.github.set_check(NAME, sha, "buildkite", "failure")
    pull = await opened(plant, sha, "side", "selfheal/side-1", title="buildkite")
    assert await looked(plant) == 0, "the branch is red"
    green = await plant.github.push(NAME, "side", {"calc.py": FIXED})
    assert await looked(plant) == 0, "the service has not begun"
    check = plant.github.set_check(NAME, green, "buildkite", unlike_success)
    assert await looked(plant) == 0
    check.conclusion = "success"
    assert await looked(plant) == 1
    assert pull.state == "closed"


async def test_a_check_run_that_passed_since_on_the_old_commit_has_to_pass_on_the_new_one(plant: Plant) -> None:
    sha = await plant.github.push(NAME, "side", {"calc.py": BROKEN})
    plant.github.set_check(NAME, sha, "lint", "failure")
    plant.github.set_check(NAME, sha, "buildkite", "success")
    await opened(plant, sha, "side", "selfheal/side-1", title="buildkite")
    green = await plant.github.push(NAME, "side", {"calc.py": FIXED})
    plant.github.set_check(NAME, green, "lint", "success")
    assert await looked(plant) == 0
    plant.github.set_check(NAME, green, "buildkite", "success")
    assert await looked(plant) == 1


async def test_it_stays_open_when_the_broken_branch_was_merged_with_its_fault(plant: Plant, repair: PullRequest) -> None:
    """GitHub points it at the base, where it repairs the same fault."""
    broken = await plant.github.open_pull(NAME, "topic")
    await plant.github.close_pull(NAME, broken.number, merged=True)
    await plant.github.repository(NAME).git.run("update-ref", "-d", "refs/heads/topic")
    repair.base_branch = "main"
    assert await close_needless(plant.deps.github, plant.store) == 0
    assert repair.state == "open"


async def test_what_people_pushed_to_its_branch_is_theirs(plant: Plant, repair: PullRequest) -> None:
    await plant.github.push(NAME, repair.head_branch, {"notes.txt": "Mine.\n"}, "Add notes")
    await plant.github.push(NAME, "topic", {"calc.py": FIXED})
    await plant.github.settled()
    assert await looked(plant) == 0
    assert repair.state == "open"


@pytest.mark.parametrize("suite", [False, True])
async def test_our_check_on_our_own_pull_request_ends_again_when_a_person_reruns_it(
    plant: Plant, repair: PullRequest, suite: bool
) -> None:
    """GitHub queues its suite, until the App reports."""
    sha = (await plant.github.branches(NAME))[OURS]
    writing = plant.deps.github.repository(plant.request.installation_id, plant.request.repository, PUBLISHING)
    said = CheckOutput("1 failing → 1 passing", "A receipt")
    await writing.report_check(CheckReport("Selfheal", sha, "one", "completed", said, "neutral"))
    (run,) = plant.github.check_runs(NAME)
    before = (run.status, run.conclusion, dict(run.output), run.external_id)
    await plant.github.rerequest(NAME, sha, suite=suite)
    assert run.suite.status == "queued"
    assert await looked(plant) == 0
    assert run.suite.status == "completed"
    assert plant.github.check_runs(NAME) == [run]
    assert (run.status, run.conclusion, run.output, run.external_id) == before
    wrote = [request for request in plant.github.requests if request.startswith("PATCH")]
    assert await looked(plant) == 0
    assert [request for request in plant.github.requests if request.startswith("PATCH")] == wrote


async def test_what_a_person_reopens_stays_open(plant: Plant, repair: PullRequest) -> None:
    sha = (await plant.github.branches(NAME))[OURS]
    await plant.github.push(NAME, "topic", {"calc.py": FIXED})
    await plant.github.settled()
    assert await looked(plant) == 1
    told = repair.body
    await plant.github.repository(NAME).git.create_ref(f"refs/heads/{OURS}", sha)
    repair.issue.state = "open"
    await plant.store.record_pull_request_state(plant.request.repository.id, repair.number, "open")
    assert await looked(plant) == 0
    assert (repair.state, repair.body) == ("open", told)


async def test_what_stays_pending_does_not_keep_it_open_for_ever(plant: Plant, repair: PullRequest) -> None:
    """A status or a check that waits for an approval, or for the merge itself, as Prow's `tide`."""
    green = await plant.github.push(NAME, "topic", {"calc.py": FIXED})
    await plant.github.settled()
    await plant.github.set_status(NAME, green, "tide", "pending")
    approval = plant.github.set_check(NAME, green, "approval")
    assert await looked(plant) == 0
    plant.github.repository(NAME).statuses[-1].created -= timedelta(minutes=61)
    assert await looked(plant) == 0, "the check is new"
    approval.started -= timedelta(minutes=61)
    assert await looked(plant) == 1


async def test_what_failed_and_stays_pending_keeps_it_open(plant: Plant, repair: PullRequest) -> None:
    red = (await plant.github.commits(NAME, "topic"))[0].sha
    await plant.github.set_status(NAME, red, "ci/jenkins", "failure")
    green = await plant.github.push(NAME, "topic", {"calc.py": FIXED})
    await plant.github.settled()
    await plant.github.set_status(NAME, green, "ci/jenkins", "pending")
    plant.github.repository(NAME).statuses[-1].created -= timedelta(minutes=61)
    assert await looked(plant) == 0


async def test_a_workflow_that_tests_no_commit_does_not_keep_it_open(plant: Plant, repair: PullRequest) -> None:
    await plant.github.push(NAME, "topic", {"calc.py": FIXED, ".github/workflows/talk.yml": workflow("Talk", run="exit 1")})
    await plant.github.settled()
    plant.github.runs(NAME)[-1].event = "issue_comment"
    assert plant.github.runs(NAME)[-1].conclusion == "failure"
    assert await looked(plant) == 1


async def test_without_the_permission_for_actions_their_check_runs_tell(plant: Plant, repair: PullRequest) -> None:
    """Another service alone is no reason to close it: the workflow is still red."""
    del plant.github.installation("acme").permissions["actions"]
    plant.github.expire_tokens()
    newest = await plant.github.push(NAME, "topic", {"notes.txt": "Still red.\n"})
    await plant.github.settled()
    plant.github.set_check(NAME, newest, "CI", "success")
    assert await close_needless(plant.deps.github, plant.store) == 0
    newest = await plant.github.push(NAME, "topic", {"calc.py": FIXED})
    await plant.github.settled()
    plant.github.set_check(NAME, newest, "CI", "success")
    assert await close_needless(plant.deps.github, plant.store) == 1


async def test_a_worker_that_reaches_nothing_says_so(plant: Plant, repair: PullRequest) -> None:
    """So another one takes the next look."""
    plant.github.faults.status("GET", f"/repos/{NAME}/pulls/{repair.number}", 502, times=2)
    with pytest.raises(Unavailable):
        await close_needless(plant.deps.github, plant.store)
    plant.github.faults.status("GET", f"/repos/{NAME}/pulls/{repair.number}", 403)
    assert await close_needless(plant.deps.github, plant.store) == 0


async def test_one_of_many_workers_looks_for_all(plant: Plant, repair: PullRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    await plant.github.push(NAME, "topic", {"calc.py": FIXED})
    await plant.github.settled()
    before, begun, done, really = len(plant.github.requests), list[str](), list[int](), looks.begin

    async def begin(store: Store, name: str, worker: str, lasting: float) -> bool:
        monkeypatch.setattr("app.service.needless._PAUSE", (60.0, 60.0))  # all look once
        is_ours = await really(store, name, worker, lasting)
        begun.append(worker)
        return is_ours

    async def update(*parts: Any) -> None:
        done.append(await update_outdated(*parts))

    monkeypatch.setattr("app.service.needless._PAUSE", (0.0, 0.01))
    monkeypatch.setattr("app.service.needless.looks.begin", begin)
    monkeypatch.setattr("app.service.needless.update_outdated", update)
    async with AsyncExitStack() as stack:
        for number in range(8):
            client = GitHub(plant.github.app_id, plant.github.private_key, api_url=plant.github.url)
            await stack.enter_async_context(client)
            working = asyncio.create_task(tidy_for_ever(client, plant.store, f"w{number}"))
            stack.push_async_callback(cancel_and_wait, working)
        await until(lambda: len(begun) == 8 and bool(done))
    assert (sorted(begun), repair.state) == ([f"w{number}" for number in range(8)], "closed")
    minted = [request for request in plant.github.requests[before:] if "/access_tokens" in request]
    assert len(minted) == 2, "one worker's tokens, for reading and for writing"
