"""What asked people to act is brought up to date, once, when nothing is left to do; never for less, and nobody is notified."""

from __future__ import annotations

import asyncio
from copy import copy
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Literal

import pytest

from agent.case import without_a_run
from agent.contract.budget import Usage
from agent.contract.outcome import NoRepair, Outcome
from agent.contract.question import Question, Waiting
from app.attempt.progress import publication_of
from app.github.types import PUBLISHING, RERUNNING
from app.publish import publish
from app.publish.publish import Published
from app.service.needless import close_needless, update_outdated
from app.store.values import PullRequestRecord
from tests.app.plant import NAME, TEST, Plant, workflow
from tests.app.publish.test_publish import BROKEN, FIXED, repair
from tests.app.requests import MovableClock, taken
from tests.standins.github.faults import ConnectionReset
from tests.standins.github.state import CheckRun, Comment, WorkflowRun
from tests.tiers import long_but
from webhooks.intake import RepairRequest

ASKING = without_a_run(Outcome.FLAKY, "It depends on chance.", "Look at `test_clock`.")
MARK = "<!-- selfheal:outdated -->"


async def looked(plant: Plant) -> int:
    return await update_outdated(plant.deps.github, plant.store)


async def pushed(plant: Plant, notes: str) -> str:
    """A newer commit on the branch `topic`, which is red too."""
    sha = await plant.github.push(NAME, "topic", {"notes.txt": notes})
    await plant.github.settled()
    return sha


async def reported(plant: Plant, sha: str, *, pull: int | None = None, ending: NoRepair = ASKING) -> str:
    """An attempt of the branch `topic` that ended so, as it is shown on GitHub."""
    (run, *_) = [run for run in plant.github.runs(NAME) if run.head_sha == sha and run.conclusion == "failure"]
    request = replace(
        plant.request, source="workflow_run", head_sha=sha, head_branch="topic", run_id=run.id, run_attempt=1, is_news=True
    )
    return await reported_of(plant, request, pull=pull, ending=ending)


async def reported_of(plant: Plant, request: RepairRequest, *, pull: int | None = None, ending: NoRepair = ASKING) -> str:
    attempt_id = await taken(plant.store, request)
    writing = plant.deps.github.repository(request.installation_id, request.repository, PUBLISHING)
    async with plant.store.lease(attempt_id, "w1") as lease:
        told = replace(publication_of(lease.attempt, ()), pull_number=pull, tells_author=True)
        await publish.progress(told, writing, None)
        await publish.explanation(told, ending, writing)
        await lease.end(ending.outcome, ending.reason, ending.next_step, reported=True)
    return attempt_id


class Red:
    """The branch `topic`, its red run, and our report of it. Its job passes once `switch` is there."""

    def __init__(self, plant: Plant, switch: Path, run: WorkflowRun, pull: int) -> None:
        self.plant, self.switch, self.run, self.pull = plant, switch, run, pull

    async def rerun(self) -> None:
        """As a person does once the cause, which is not in the code, is gone."""
        self.switch.touch()
        request = self.plant.request
        await self.plant.deps.github.repository(request.installation_id, request.repository, RERUNNING).rerun_failed_jobs(
            self.run.id
        )

    @property
    def check(self) -> CheckRun:
        (check,) = self.plant.github.check_runs(NAME)
        return check

    @property
    def comment(self) -> Comment:
        (comment,) = self.plant.github.comments(NAME, self.pull)
        return comment

    def says(self, why: str) -> None:
        """Check run and comment begin so, the former text is folded below."""
        assert (self.check.status, self.check.conclusion) == ("completed", "neutral")
        assert self.check.output["title"] == why.replace("`", "")
        for text in (self.check.output["summary"], self.comment.body):
            assert text.startswith(f"{MARK}\n**{why}**\n\n<details>")
            assert text.count(MARK) == 1
            assert text.count("**Next:** Look at `test_clock`.") == 1
            assert text.endswith("</details>")


@pytest.fixture
async def red(plant: Plant, tmp_path: Path) -> Red:
    switch = tmp_path / "switch"
    files = {
        ".github/workflows/ci.yml": workflow(run=f"test -e {switch}"),
        ".github/workflows/docs.yml": workflow("Docs", run="exit 0"),
    }
    sha = await plant.github.push(NAME, "topic", files)
    await plant.github.settled()
    pull = await plant.github.open_pull(NAME, "topic")
    await reported(plant, sha, pull=pull.number)
    (run,) = [run for run in plant.github.runs(NAME) if run.conclusion == "failure"]
    made = Red(plant, switch, run, pull.number)
    before = made.check.output, made.comment.body
    assert await looked(plant) == 0, "somebody has to act"
    assert before == (made.check.output, made.comment.body)
    return made


async def test_it_says_that_ci_is_green_now_once_a_rerun_passed(plant: Plant, red: Red) -> None:
    await red.rerun()
    await plant.github.settled()
    assert await looked(plant) == 1
    red.says(f"CI of `{red.run.head_sha[:10]}` is green now: nothing to do.")

    before = len(plant.github.requests)
    assert await looked(plant) == 0
    assert len(plant.github.requests) == before, "it is not looked at any more"


async def test_it_says_that_the_branch_has_moved_on(plant: Plant, red: Red) -> None:
    sha = await pushed(plant, "Still red.\n")
    assert await looked(plant) == 1
    red.says(f"The branch has moved on from `{red.run.head_sha[:10]}` to `{sha[:10]}`: nothing to do.")


async def test_it_says_that_the_branch_was_deleted(plant: Plant, red: Red) -> None:
    await plant.github.repository(NAME).git.run("update-ref", "-d", "refs/heads/topic")
    assert await looked(plant) == 1
    red.says(f"The branch of `{red.run.head_sha[:10]}` was deleted: nothing to do.")


async def test_a_rerun_that_was_cancelled_is_not_green(plant: Plant, red: Red) -> None:
    red.run.attempt, red.run.conclusion = 2, "cancelled"  # the other workflow has passed
    assert await looked(plant) == 0


@pytest.mark.parametrize("source", ["check_run", "status"])
async def test_it_says_that_ci_is_green_now_once_what_failed_of_another_service_passed(
    plant: Plant, source: Literal["check_run", "status"]
) -> None:
    async def tell(name: str, verdict: str) -> None:
        if source == "status":
            await plant.github.set_status(NAME, sha, name, verdict)
        else:
            plant.github.set_check(NAME, sha, name).conclusion = None
            plant.github.set_check(NAME, sha, name, verdict)

    sha = await plant.github.push(NAME, "topic", {"calc.py": BROKEN})
    await tell("lint", "success")
    await tell("tests", "failure")
    await reported_of(plant, replace(plant.request, source=source, head_sha=sha, head_branch="topic", title="tests"))
    assert await looked(plant) == 0, "somebody has to act"
    await tell("tests", "success")
    assert await looked(plant) == 1
    (check,) = plant.github.check_runs(NAME)
    assert check.output["title"] == f"CI of {sha[:10]} is green now: nothing to do."


async def test_where_it_is_unknown_which_check_run_failed_it_does_not_say_that_ci_is_green(plant: Plant) -> None:
    sha = await plant.github.push(NAME, "topic", {"calc.py": BROKEN})
    plant.github.set_check(NAME, sha, "lint", "success")
    await reported_of(plant, replace(plant.request, source="check_suite", head_sha=sha, head_branch="topic", title="Other CI"))
    assert await looked(plant) == 0


@pytest.mark.parametrize(("status", "conclusion"), [("completed", "timed_out"), ("in_progress", None)])
async def test_it_is_not_green_while_another_workflow_is_not(
    plant: Plant, red: Red, status: str, conclusion: str | None
) -> None:
    await red.rerun()
    await plant.github.settled()
    (docs,) = [run for run in plant.github.runs(NAME) if run.workflow.name == "Docs"]
    docs.status, docs.conclusion = status, conclusion
    assert await looked(plant) == 0


@pytest.mark.parametrize("moment", long_but(["before", "after"], "after"))
@pytest.mark.parametrize("write", ["check-runs/*", "issues/comments/*"])
async def test_killed_at_a_write_and_run_again_it_says_so_once(plant: Plant, red: Red, write: str, moment: str) -> None:
    sha = await pushed(plant, "x\n")
    killed = asyncio.Event()
    looking = asyncio.create_task(looked(plant))

    async def kill(method: str, path: str) -> None:
        if not killed.is_set():
            killed.set()
            looking.cancel()
            await asyncio.wait([looking])
            if moment == "before":
                raise ConnectionReset  # the request never arrived

    plant.github.faults.on("PATCH", f"/repos/{NAME}/{write}", kill, moment)  # type: ignore[arg-type]
    with pytest.raises(asyncio.CancelledError):
        await looking
    assert await looked(plant) == 1
    red.says(f"The branch has moved on from `{red.run.head_sha[:10]}` to `{sha[:10]}`: nothing to do.")


async def test_a_comment_that_shows_a_later_attempt_is_left_alone(plant: Plant, red: Red) -> None:
    sha = await pushed(plant, "Still red.\n")
    later = replace(ASKING, reason="The later one.")
    await reported(plant, sha, pull=red.pull, ending=later)
    assert await looked(plant) == 1
    first, second = plant.github.check_runs(NAME)
    assert MARK in first.output["summary"]
    assert MARK not in second.output["summary"]
    assert "The later one." in red.comment.body
    assert MARK not in red.comment.body


async def test_no_comment_is_made_for_it(plant: Plant, red: Red) -> None:
    del plant.github.repository(NAME).comments[red.comment.id]
    await pushed(plant, "x\n")
    assert await looked(plant) == 1
    assert not plant.github.comments(NAME, red.pull)


@pytest.mark.usefixtures("red")
async def test_what_ended_days_ago_is_left_alone(plant: Plant) -> None:
    await pushed(plant, "x\n")
    late = copy(plant.store)
    late.clock = MovableClock(plant.store.clock.now() + timedelta(days=3))
    assert await update_outdated(plant.deps.github, late) == 0


@pytest.mark.long
async def test_a_superseded_attempt_asked_for_nothing(plant: Plant, red: Red) -> None:
    sha = await pushed(plant, "x\n")
    assert await looked(plant) == 1
    moved = without_a_run(Outcome.SUPERSEDED, "It moved.", "Nothing to do.")
    await reported(plant, sha, pull=red.pull, ending=moved)
    await pushed(plant, "y\n")
    before = len(plant.github.requests)
    assert await looked(plant) == 0
    assert len(plant.github.requests) == before


async def test_a_report_of_a_repair_is_outdated_once_its_pull_request_is_closed_as_needless(plant: Plant) -> None:
    await plant.github.push(NAME, "main", {".github/workflows/ci.yml": workflow()})
    sha = await plant.github.push(NAME, "topic", {"calc.py": BROKEN, "test_calc.py": TEST}, base="main")
    await plant.github.settled()
    broken = await plant.github.open_pull(NAME, "topic")
    (run,) = [run for run in plant.github.runs(NAME) if run.head_sha == sha]
    request = replace(plant.request, source="workflow_run", head_sha=sha, head_branch="topic", run_id=run.id, run_attempt=1)
    attempt_id = await taken(plant.store, request)
    writing = plant.deps.github.repository(request.installation_id, request.repository, PUBLISHING)
    async with plant.store.lease(attempt_id, "w1") as lease:
        told = replace(publication_of(lease.attempt, ()), pull_number=broken.number, tells_author=True)
        made = await publish.pull_request(told, repair(), writing)
        assert isinstance(made, Published)
        await lease.record_pull_request(PullRequestRecord(made.number, made.branch, made.url), 0.9)
        await lease.end(Outcome.HEALED, "Opened a pull request.", "Review it.", reported=True)
    assert await looked(plant) == 0, "it is to be reviewed"

    green = await plant.github.push(NAME, "topic", {"calc.py": FIXED})
    await plant.github.settled()
    assert await looked(plant) == 0, "it is still open"
    assert await close_needless(plant.deps.github, plant.store) == 1
    why = f"The branch has moved on from `{sha[:10]}` to `{green[:10]}`: nothing to do."
    (check,) = [check for check in plant.github.check_runs(NAME) if check.head_sha == sha]
    (comment,) = plant.github.comments(NAME, broken.number)
    for text in (check.output["summary"], comment.body):
        assert text.startswith(f"{MARK}\n**{why}**\n\n<details>")
    assert await looked(plant) == 0


async def test_a_question_is_over_once_the_branch_has_moved_on(plant: Plant) -> None:
    sha = await plant.github.push(NAME, "topic", {"calc.py": BROKEN})
    broken = await plant.github.open_pull(NAME, "topic")
    attempt_id = await taken(plant.store, replace(plant.request, head_sha=sha, head_branch="topic"))
    writing = plant.deps.github.repository(plant.request.installation_id, plant.request.repository, PUBLISHING)
    asked = Question("publish", "Publish this repair?", "+    return a + b")
    async with plant.store.lease(attempt_id, "w1") as lease:
        told = replace(publication_of(lease.attempt, ()), pull_number=broken.number, tells_author=True)
        await publish.question(told, asked, writing)
        await lease.wait(Waiting(asked, Usage(), "asked-1"))
    assert await looked(plant) == 0, "somebody has to answer"

    newer = await plant.github.push(NAME, "topic", {"calc.py": FIXED})
    assert await looked(plant) == 1
    why = f"The branch has moved on from `{sha[:10]}` to `{newer[:10]}`: nothing to do."
    (check,) = plant.github.check_runs(NAME)
    assert check.output["title"] == why.replace("`", "")
    (comment,) = plant.github.comments(NAME, broken.number)
    for text in (check.output["summary"], comment.body):
        assert text.startswith(f"{MARK}\n**{why}**")
    attempt = await plant.attempt(attempt_id)
    assert (attempt.status, attempt.outcome, attempt.is_reported) == ("ended", Outcome.SUPERSEDED, True)
    assert await looked(plant) == 0
