"""CI of a pull request tests its merge into the base: that is repaired, and published only if the branch alone is right too."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.contract.outcome import Outcome
from agent.contract.task import Policy
from app.attempt.gather import Gathered, HeadCommit, gather, resolve_head
from app.attempt.story import heal
from app.store.values import Attempt
from tests.app.plant import NAME, TEST, Plant, workflow
from tests.app.requests import taken

WRONG = "def add(a, b):\n    return a - b\n"
RIGHT = WRONG.replace("-", "+")
REST = "".join(f"\n\ndef keep_{n}(a):\n    return a\n" for n in range(4))
NEW = "\n\ndef double(a):\n    return 2 * a\n"


async def healed(plant: Plant, before: str, after: str) -> Attempt:
    """The attempt on a pull request that adds a test of a file, which is changed in the base before CI runs."""
    github = plant.github
    await github.push(NAME, "main", {".github/workflows/ci.yml": workflow(on="pull_request"), "calc.py": before})
    sha = await github.push(NAME, "topic", {"test_calc.py": TEST})
    await github.push(NAME, "main", {"calc.py": after})
    await github.open_pull(NAME, "topic")
    await github.settled()
    (run,) = github.runs(NAME)
    assert (run.event, run.conclusion) == ("pull_request", "failure")
    attempt_id = await taken(plant.store, replace(plant.request, head_sha=sha, head_branch="topic"))
    engine = replace(plant.deps.engine, policy=Policy(min_confidence=0.0))  # one test says little
    await heal(attempt_id, replace(plant.deps, engine=engine))
    return await plant.attempt(attempt_id)


@pytest.mark.long
async def test_a_failure_of_the_branch_is_repaired_on_the_branch(plant: Plant) -> None:
    attempt = await healed(plant, WRONG + REST, WRONG + REST + NEW)
    assert attempt.outcome is Outcome.HEALED, attempt.reason
    (pull,) = [pull for pull in plant.github.pull_requests(NAME) if pull.head_branch.startswith("selfheal/")]
    assert await plant.github.file(NAME, "calc.py", pull.head_branch) == (RIGHT + REST).encode(), "nothing of its base"
    assert "CI tested the merge of the pull request into main" in pull.body.replace("\u200b", "")


@pytest.mark.long
async def test_a_failure_that_only_the_merge_has_is_told(plant: Plant) -> None:
    attempt = await healed(plant, RIGHT + REST, WRONG + REST)
    assert attempt.outcome is Outcome.REFUSED
    assert "holds on the merge that CI tested, but not on this branch alone" in (attempt.reason or "")
    assert "The branch has this code already" in (attempt.reason or "")
    assert [pull for pull in plant.github.pull_requests(NAME) if pull.head_branch.startswith("selfheal/")] == []
    (check,) = plant.github.check_runs(NAME)
    assert "+    return a + b" in check.output["summary"]


LIMITED = "from config import LIMIT\n\n\ndef fits(n):\n    return n < LIMIT\n"
AT_THE_LIMIT = """\
import unittest
import calc

class Tests(unittest.TestCase):
    def test_small(self):
        assert calc.fits(3)

    def test_large(self):
        assert not calc.fits(9)
"""


async def limited(plant: Plant) -> str:
    """A pull request that is green until its base lowers a limit; the head's commit."""
    github = plant.github
    await github.push(NAME, "main", {".github/workflows/ci.yml": workflow(on="pull_request"), "config.py": "LIMIT = 4\n"})
    sha = await github.push(NAME, "topic", {"calc.py": LIMITED, "test_calc.py": AT_THE_LIMIT})
    await github.push(NAME, "main", {"config.py": "LIMIT = 3\n"})
    await github.open_pull(NAME, "topic")
    await github.settled()
    return await taken(plant.store, replace(plant.request, head_sha=sha, head_branch="topic"))


async def test_the_workflow_is_the_one_of_the_merge(plant: Plant) -> None:
    """The base has changed it since the branch was made."""
    github = plant.github
    await github.push(NAME, "main", {".github/workflows/ci.yml": workflow(on="pull_request"), "calc.py": WRONG})
    sha = await github.push(NAME, "topic", {"test_calc.py": TEST})
    newer = workflow(on="pull_request", run="python -m unittest -v")
    await github.push(NAME, "main", {".github/workflows/ci.yml": newer})
    await github.open_pull(NAME, "topic")
    await github.settled()
    reading = plant.deps.github.repository(plant.request.installation_id, plant.request.repository)
    request = replace(plant.request, head_sha=sha, head_branch="topic")
    attempt = await plant.attempt(await taken(plant.store, request))
    gathered = await gather(attempt, HeadCommit(sha, "topic"), reading, ())
    assert isinstance(gathered, Gathered)
    assert gathered.merge_sha
    assert [job.workflow for job in gathered.jobs] == [newer]
    assert gathered.workflows == (newer.encode(),)


@pytest.mark.parametrize("has_merge", [True, False])
async def test_with_the_log_the_merge_is_forgotten_so_it_says_what_is_repaired(plant: Plant, has_merge: bool) -> None:
    """The REST API names no merge of a run, and GitHub removes `refs/pull/N/merge` once the two conflict.

    https://docs.github.com/rest/pulls/pulls#get-a-pull-request
    """
    attempt = await plant.attempt(await limited(plant))
    plant.github.faults.status("GET", f"/repos/{NAME}/actions/jobs/*/logs", 410)
    git = plant.github.repository(NAME).git
    merge = await git.ref("refs/pull/1/merge") or ""
    if not has_merge:
        await git.delete_ref("refs/pull/1/merge")
    reading = plant.deps.github.repository(plant.request.installation_id, plant.request.repository)
    head = await resolve_head(attempt, reading)
    assert isinstance(head, HeadCommit)
    gathered = await gather(attempt, head, reading, ())
    assert isinstance(gathered, Gathered)
    assert gathered.merge_sha == (merge if has_merge else "")
    what = f"the newest merge (`{merge[:10]}`)" if has_merge else "the branch alone"
    gone = "CI tested a merge of the pull request into main, but its log, which names that, is missing"
    assert f"{gone}: {what} is repaired." in gathered.notes


@pytest.mark.long
async def test_a_failure_of_the_merge_is_repaired_on_a_green_branch_if_it_stays_green(plant: Plant) -> None:
    attempt_id = await limited(plant)
    await heal(attempt_id, replace(plant.deps, engine=replace(plant.deps.engine, policy=Policy(min_confidence=0.3))))
    attempt = await plant.attempt(attempt_id)
    assert attempt.outcome is Outcome.HEALED, attempt.reason
    (pull,) = [pull for pull in plant.github.pull_requests(NAME) if pull.head_branch.startswith("selfheal/")]
    assert b"n <= LIMIT" in (await plant.github.file(NAME, "calc.py", pull.head_branch) or b"")
    assert await plant.github.file(NAME, "config.py", pull.head_branch) == b"LIMIT = 4\n", "nothing of its base"
    assert "the branch alone passes with and without the patch" in pull.body
