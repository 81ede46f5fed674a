"""What is read of a failure, from a real stand-in: also when half of it is gone, and never a secret."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import pytest

from agent.contract.outcome import NoRepair, Outcome
from app.attempt.gather import Gathered, HeadCommit, NotWanted, gather, wait_for_ci, was_closed
from app.clock import SystemClock
from app.github.client import GitHub
from app.github.errors import Forbidden, NotFound
from app.github.repository import Repository
from app.github.retries import RetryPolicy
from app.github.types import PullRequest
from app.settings import load
from app.store.store import Store, open_store
from app.store.values import Attempt
from tests.app.requests import failing, taken
from tests.standins import github as standin
from webhooks.events import Side
from webhooks.intake import RERUN, RepairRequest, RepositoryRef

NAME = "acme/boiler"
TOKEN = "ghp_" + "a1" * 18
WORKFLOW = f"""\
name: CI
on: [push]
jobs:
  tests:
    runs-on: ubuntu-latest
    steps:
      - name: Test
        run: echo "error {TOKEN} and open-sesame"; exit 1
"""


@dataclass(frozen=True, slots=True)
class Red:
    """A commit whose one workflow run is red."""

    github: standin.GitHub
    repository: Repository
    store: Store
    head: HeadCommit
    ref: RepositoryRef

    async def attempt(self) -> Attempt:
        installation = self.github.installation("acme").id
        (run,) = self.github.runs(NAME)
        asked = RepairRequest("workflow_run", installation, self.ref, self.head.sha, "main", run_id=run.id, title="CI")
        attempt = await self.store.attempt(await taken(self.store, asked))
        assert attempt is not None
        return attempt

    async def gathered(self) -> Gathered:
        found = await gather(await self.attempt(), self.head, self.repository, ("open-sesame",))
        assert isinstance(found, Gathered)
        return found


@pytest.fixture
async def red(tmp_path: Path, database_url: str | None) -> AsyncIterator[Red]:
    async with (
        standin.GitHub() as github,
        open_store(load(data_dir=tmp_path, database_url=database_url), SystemClock()) as store,
        GitHub(github.app_id, github.private_key, api_url=github.url) as client,
    ):
        made = await github.create_repository(NAME, {"boiler.py": "HOT = True\n"})
        sha = await github.push(NAME, "main", {".github/workflows/ci.yml": WORKFLOW})
        await github.settled()
        ref = RepositoryRef(made.id, NAME, "main")
        repository = client.repository(github.installation("acme").id, ref)
        yield Red(github, repository, store, HeadCommit(sha, "main"), ref)


async def test_where_github_has_no_actions_other_services_are_read(red: Red) -> None:
    """Without Actions, an Enterprise server answers 404 to everything about them."""
    red.github.faults.status("GET", f"/repos/{NAME}/actions/*", 404, times=99)
    gathered = await by_status(red)
    assert (gathered.title, gathered.runs) == ("ci/jenkins", ())
    attempt = await red.attempt()
    red.github.remove_repository(NAME)
    with pytest.raises(NotFound):
        await gather(attempt, red.head, red.repository, ())


async def test_what_a_failing_job_says_is_told_without_secrets(red: Red) -> None:
    gathered = await red.gathered()
    (job,) = gathered.jobs
    assert (job.name, job.failed_step) == ("tests", "Test")
    (hint,) = gathered.hints
    assert "error [redacted] and [redacted]" in hint
    assert TOKEN not in hint
    assert "open-sesame" not in hint


async def test_a_workflow_that_the_owners_exclude_is_not_healed(red: Red) -> None:
    attempt = await red.attempt()
    await red.github.push(NAME, "main", {".github/selfheal.yml": "workflows: {ignore: [ci.yml]}\n"})
    ended = await gather(attempt, red.head, red.repository, ())
    assert isinstance(ended, NoRepair)
    assert ended.outcome is Outcome.REFUSED
    assert ended.reason.startswith(".github/selfheal.yml excludes the failing workflows: ")


async def test_a_log_that_has_expired_is_named_as_gone(red: Red) -> None:
    red.github.faults.status("GET", f"/repos/{NAME}/actions/jobs/*", 410, times=9)
    gathered = await red.gathered()
    assert [job.name for job in gathered.jobs] == ["tests"]
    assert gathered.hints == ("The log of the failing job tests has expired.",)


async def test_a_log_that_is_not_stored_yet_is_waited_for(red: Red, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.attempt.gather.LOG_WAITS", (0.01, 0.02, 0.04))
    red.github.faults.status("GET", f"/repos/{NAME}/actions/jobs/*/logs", 404, times=3)
    (hint,) = (await red.gathered()).hints
    assert "error [redacted]" in hint
    red.github.faults.status("GET", f"/repos/{NAME}/actions/jobs/*/logs", 404, times=9)
    assert (await red.gathered()).hints == ("The log of the failing job tests has expired.",)
    assert red.github.faults.waiting[-1].times == 5, "one try, and three more"


async def test_a_log_that_takes_too_long_is_done_without(red: Red) -> None:
    is_over = asyncio.Event()

    async def last(*_: str) -> None:
        await is_over.wait()

    red.github.faults.on("GET", f"/repos/{NAME}/actions/jobs/*/logs", last, "before")
    hasty = RetryPolicy(download=0.2)
    async with GitHub(red.github.app_id, red.github.private_key, api_url=red.github.url, retry_policy=hasty) as client:
        reading = client.repository(red.github.installation("acme").id, red.ref)
        gathered = await replace(red, repository=reading).gathered()
    is_over.set()
    assert [job.name for job in gathered.jobs] == ["tests"]
    assert gathered.hints == ("The log of the failing job tests took too long to download.",)


@pytest.mark.parametrize("fault", ["403", "503", "302", "reset", "private network"])
async def test_a_log_whose_host_cannot_be_reached_is_done_without(red: Red, fault: str) -> None:
    world, host = red.github.world, "localhost"
    if fault.isdigit():
        red.github.downloads.status = int(fault)
    else:
        host = "127.0.0.2" if fault == "private network" else "127.0.0.1"
        world.downloads_url = f"http://{host}:9"
    hasty = RetryPolicy(tries=2, first_delay=0.01)
    async with GitHub(red.github.app_id, red.github.private_key, api_url=red.github.url, retry_policy=hasty) as client:
        reading = client.repository(red.github.installation("acme").id, red.ref)
        gathered = await replace(red, repository=reading).gathered()
    assert [job.name for job in gathered.jobs] == ["tests"]
    assert gathered.hints == ("The log of the failing job tests could not be downloaded.",)
    (note,) = [note for note in gathered.notes if "log" in note]
    assert note.startswith("The log of tests could not be downloaded: ")
    assert host in note
    assert note.endswith(". Whoever runs Selfheal can let its server reach that host.")


async def test_an_api_that_refuses_a_log_is_told(red: Red) -> None:
    red.github.faults.status("GET", f"/repos/{NAME}/actions/jobs/*/logs", 403)
    with pytest.raises(Forbidden):
        await red.gathered()


async def test_a_log_that_needs_a_permission_is_done_without(red: Red) -> None:
    """Without Actions, the runs and jobs of a public repository can be read, and their logs not.

    https://docs.github.com/rest/actions/workflow-jobs#list-jobs-for-a-workflow-run
    """
    words = "Resource not accessible by integration"
    red.github.faults.refuse("GET", f"/repos/{NAME}/actions/jobs/*/logs", 403, words)
    gathered = await red.gathered()
    assert [job.name for job in gathered.jobs] == ["tests"]
    assert gathered.hints == ("The log of the failing job tests could not be read.",)
    (note,) = [note for note in gathered.notes if "log" in note]
    assert note.startswith(
        "The logs of GitHub Actions were not read, because the installation does not grant `actions: read`. "
    )


async def test_an_old_log_that_is_missing_is_not_waited_for(red: Red, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.attempt.gather.FRESH", timedelta(0))
    red.github.faults.status("GET", f"/repos/{NAME}/actions/jobs/*/logs", 404, times=9)
    assert (await red.gathered()).hints == ("The log of the failing job tests has expired.",)
    assert red.github.faults.waiting[-1].times == 8


async def test_a_run_that_was_deleted_leaves_what_else_is_known(red: Red) -> None:
    (run,) = red.github.runs(NAME)
    red.github.faults.status("GET", f"/repos/{NAME}/actions/runs/{run.id}/jobs", 404, times=9)
    assert (await red.gathered()).jobs == ()
    run.conclusion = "success"  # so that the listing of red runs does not name it
    red.github.faults.status("GET", f"/repos/{NAME}/actions/runs/{run.id}", 404, times=9)
    gathered = await red.gathered()
    assert (gathered.jobs, gathered.title) == ((), "CI")


async def test_a_step_that_deploys_says_nothing_about_the_code(red: Red) -> None:
    deploying = f"{WORKFLOW.rpartition('run:')[0]}run: kubectl apply -f web.yml\n"
    sha = await red.github.push(NAME, "deploying", {".github/workflows/ci.yml": deploying})
    await red.github.settled()
    (run,) = [run for run in red.github.runs(NAME) if run.head_sha == sha]
    installation = red.github.installation("acme").id
    asked = RepairRequest("workflow_run", installation, red.ref, sha, "deploying", run_id=run.id, title="CI")
    attempt = await red.store.attempt(await taken(red.store, asked))
    assert attempt is not None
    found = await gather(attempt, HeadCommit(sha, "deploying"), red.repository, ())
    assert isinstance(found, NoRepair)
    assert found.outcome is Outcome.REFUSED
    assert "deploys, notifies or transfers (`kubectl`)" in found.reason


async def test_githubs_own_workflows_are_no_failures_of_the_code(red: Red) -> None:
    (run,) = red.github.runs(NAME)
    run.event = "dynamic"  # as of "Dependabot Updates" and "pages build and deployment"
    assert failing(await red.repository.runs(red.head.sha)) == ()


async def by_status(red: Red) -> Gathered:
    """What is gathered of a commit whose status `ci/jenkins` failed, and that has no workflow."""
    sha = await red.github.push(NAME, "main", {".github/workflows/ci.yml": None})
    for state in ("pending", "failure"):
        await red.github.set_status(NAME, sha, "ci/jenkins", state, "2 tests failed, open-sesame", "https://ci.test/7")
    for state in ("failure", "success"):
        await red.github.set_status(NAME, sha, "ci/docs", state)
    asked = RepairRequest("status", red.github.installation("acme").id, red.ref, sha, "main", title="ci/jenkins")
    attempt = await red.store.attempt(await taken(red.store, asked))
    assert attempt is not None
    gathered = await gather(attempt, HeadCommit(sha, "main"), red.repository, ("open-sesame",))
    assert isinstance(gathered, Gathered), gathered
    return gathered


async def test_a_workflow_that_tests_no_commit_is_read_only_for_a_person(red: Red) -> None:
    await red.github.push(NAME, "main", {"notes.txt": "Nothing.\n"})
    asked = RepairRequest("check_run", red.github.installation("acme").id, red.ref, red.head.sha, "main", title="CI")
    for run in red.github.runs(NAME):
        run.event = "issue_comment"
    attempt = await red.store.attempt(await taken(red.store, asked))
    assert attempt is not None
    for by_command in (False, True):
        gathered = await gather(replace(attempt, by_command=by_command), red.head, red.repository, ())
        assert isinstance(gathered, Gathered)
        assert [run.name for run in gathered.runs] == ["CI"] * by_command


async def test_failing_statuses_are_told_where_no_workflow_failed(red: Red) -> None:
    gathered = await by_status(red)
    assert gathered.hints == ("ci/jenkins: 2 tests failed, [redacted]",)
    assert (gathered.title, gathered.url, gathered.notes) == ("ci/jenkins", "https://ci.test/7", ())


async def test_a_status_that_the_owners_exclude_is_not_healed(red: Red) -> None:
    await red.github.push(NAME, "main", {".github/selfheal.yml": "workflows: {ignore: ['ci/*']}\n"})
    with pytest.raises(AssertionError, match="excludes the failing checks"):
        await by_status(red)


class OtherCi:
    """Two services report on a commit: one by statuses, one by check runs. Each has failed in a part, and goes on with another.

    https://docs.github.com/rest/commits/statuses#about-commit-statuses
    https://docs.github.com/rest/guides/using-the-rest-api-to-interact-with-checks#about-check-runs
    """

    def __init__(self, red: Red, sha: str) -> None:
        self.github, self.sha = red.github, sha
        self.told: list[str] = []

    async def begin(self) -> None:
        await self.github.set_status(NAME, self.sha, "ci/tests", "failure")
        await self.github.set_status(NAME, self.sha, "ci/docs", "pending")
        self.github.set_check(NAME, self.sha, "lint")

    async def end(self, text: str) -> None:
        self.told.append(text)
        await self.github.set_status(NAME, self.sha, "ci/docs", "failure")
        self.github.set_check(NAME, self.sha, "lint", "failure")


async def test_other_services_that_still_report_are_waited_for(red: Red, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their later failures start no further attempt, so they would never be worked on."""
    monkeypatch.setattr("app.attempt.gather._POLL", 0.01)
    sha = await red.github.push(NAME, "main", {".github/workflows/ci.yml": None})
    other = OtherCi(red, sha)
    await other.begin()
    async with asyncio.timeout(20):
        await wait_for_ci(HeadCommit(sha, "main"), red.repository, 60, other.end)
    assert other.told == ["Waiting for 2 other checks of this commit"]


async def test_other_services_are_not_waited_for_where_a_workflow_failed(red: Red) -> None:
    """What they report is not read then."""
    other = OtherCi(red, red.head.sha)
    await other.begin()
    await wait_for_ci(red.head, red.repository, 60, other.end)
    assert other.told == []


async def test_a_status_that_stays_pending_is_not_waited_for_longer_than_set(red: Red) -> None:
    sha = await red.github.push(NAME, "main", {".github/workflows/ci.yml": None})
    await red.github.set_status(NAME, sha, "license/cla", "pending")
    told: list[str] = []

    async def tell(text: str) -> None:
        told.append(text)

    async with asyncio.timeout(20):
        await wait_for_ci(HeadCommit(sha, "main"), red.repository, 1, tell)
        assert told == ["Waiting for 1 other check of this commit"]
        del red.github.installation("acme").permissions["statuses"]
        red.github.expire_tokens()
        await wait_for_ci(HeadCommit(sha, "main"), red.repository, 60, tell)
        assert len(told) == 1, "they cannot be read"


async def test_an_installation_that_grants_no_statuses_still_works_and_is_told(red: Red) -> None:
    del red.github.installation("acme").permissions["statuses"]
    assert len((await red.gathered()).hints) == 1
    gathered = await by_status(red)
    assert gathered.hints == ()
    (note,) = gathered.notes
    assert "does not grant `statuses: read`. The App's owner can ask for it" in note


async def test_an_installation_that_grants_no_actions_still_works_with_other_services(red: Red) -> None:
    del red.github.installation("acme").permissions["actions"]
    gathered = await by_status(red)
    assert (gathered.title, gathered.hints) == ("ci/jenkins", ("ci/jenkins: 2 tests failed, [redacted]",))
    assert gathered.notes == (), "no workflow failed, so nothing is missing"
    assert await red.repository.runs(red.head.sha) is None


async def test_workflows_that_the_installation_does_not_let_us_read_are_told(red: Red) -> None:
    """Their check runs can be read: that they failed is known, and nothing else."""
    del red.github.installation("acme").permissions["actions"]
    gathered = await red.gathered()
    assert (gathered.title, gathered.runs, gathered.jobs) == ("tests", (), ())
    assert gathered.others == (("check_run", "tests"),)
    (note,) = gathered.notes
    assert note.startswith("The jobs and logs of GitHub Actions were not read, because the installation does not grant ")
    assert "`actions: read`" in note
    assert note.endswith(" The App's owner can ask for it, and an owner of `acme` can accept it in the App's installation.")


@pytest.mark.parametrize("selection", ["only: [CI]", "ignore: [tests]"])
async def test_workflows_that_cannot_be_read_are_not_chosen_by_the_names_of_their_jobs(red: Red, selection: str) -> None:
    del red.github.installation("acme").permissions["actions"]
    attempt = await red.attempt()
    await red.github.push(NAME, "main", {".github/selfheal.yml": f"workflows: {{{selection}}}\n"})
    gathered = await gather(attempt, red.head, red.repository, ())
    assert isinstance(gathered, Gathered)
    assert gathered.others == (("check_run", "tests"),)


async def test_workflows_that_cannot_be_read_are_waited_for_by_their_check_runs(
    red: Red, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.attempt.gather._POLL", 0.01)
    del red.github.installation("acme").permissions["actions"]
    (check,) = red.github.check_runs(NAME, by_app=False)
    check.status, check.conclusion = "in_progress", None
    told: list[str] = []

    async def end(text: str) -> None:
        told.append(text)
        check.status, check.conclusion = "completed", "failure"

    async with asyncio.timeout(20):
        await wait_for_ci(red.head, red.repository, 60, end)
    assert told == ["Waiting for 1 other check of this commit"]


async def test_an_api_that_refuses_workflows_for_another_reason_is_no_missing_permission(red: Red) -> None:
    red.github.faults.refuse("GET", f"/repos/{NAME}/actions/runs", 403, "Your IP address is not permitted.", times=9)
    with pytest.raises(Forbidden, match="IP address"):
        await red.gathered()


@pytest.mark.long
async def test_the_last_good_commit_and_the_newest_tag_are_told(red: Red) -> None:
    attempt = await red.attempt()
    whole = WORKFLOW.replace("- name: Test", "- uses: actions/checkout@v4\n        with: {fetch-depth: 0}\n      - name: Test")
    await red.github.push(NAME, "topic", {".github/workflows/ci.yml": whole, "boiler.py": "HOT = False\n"}, base="main~1")
    await red.github.tag(NAME, "v1.4", "main")
    await red.github.settled()
    sha = (await red.github.branches(NAME))["topic"]
    found = await gather(attempt, HeadCommit(sha, "topic"), red.repository, ())
    assert isinstance(found, Gathered)
    (good,) = found.good
    assert good.name.startswith("the merge base ")
    assert [file.path for file in good.files] == [".github/workflows/ci.yml", "boiler.py"]
    assert {job.run.tag for job in found.jobs} == {"v1.4"}
    assert found.notes == ()
    pull = PullRequest(1, "https://github.test/1", "open", "A change", Side("topic", sha), Side("elsewhere", "0" * 40))
    of_a_pull = await gather(attempt, HeadCommit(sha, "topic", pull), red.repository, ())
    assert isinstance(of_a_pull, Gathered)
    assert of_a_pull.good == (), "compared with the base of the pull request, which does not exist"


async def test_what_belongs_to_a_pull_request_that_was_closed_is_left(red: Red) -> None:
    """https://docs.github.com/actions/reference/workflows-and-actions/events-that-trigger-workflows#pull_request"""
    sha = await red.github.push(NAME, "topic", {"boiler.py": "HOT = False\n"})
    head = HeadCommit(sha, "topic")
    await red.github.push(NAME, "release", {"notes.txt": "A second base.\n"})
    pull, other = await red.github.open_pull(NAME, "topic", "release"), await red.github.open_pull(NAME, "topic")
    asked = RepairRequest("workflow_run", red.github.installation("acme").id, red.ref, sha, "topic", run_id=1, workflow_id=2)
    attempt = await red.store.attempt(await taken(red.store, asked))
    assert attempt is not None
    await red.github.close_pull(NAME, other.number)
    assert await was_closed(attempt, head, red.repository) is None, "the branch has another one, which is open"
    await red.github.close_pull(NAME, pull.number)
    ended = await was_closed(attempt, head, red.repository)
    assert isinstance(ended, NotWanted)
    assert ended.reason == f"Pull request #{other.number} was closed without a merge, so its branch is not repaired."
    for request in (
        replace(asked, source="check_run", title=RERUN, sender="maria"),  # a person asks for it
        replace(asked, run_id=3, workflow_id=None),  # a push failed: the branch may live on without a pull request
    ):
        wanted = replace(attempt, requests=(*attempt.requests, request))
        assert await was_closed(wanted, head, red.repository) is None
    assert await was_closed(replace(attempt, answered_at=attempt.created_at), head, red.repository) is None
