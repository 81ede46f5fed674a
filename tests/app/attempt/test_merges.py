"""CI of a pull request tests its merge into the base: that is repaired, and published only if the branch alone is right too."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.contract.outcome import Outcome
from agent.contract.task import Policy
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
    engine = replace(plant.deps.engine, policy=Policy(min_confidence=0.5))  # one test says little
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
    assert "passes on the merge that CI tested, but not on this branch alone" in (attempt.reason or "")
    assert [pull for pull in plant.github.pull_requests(NAME) if pull.head_branch.startswith("selfheal/")] == []
    (check,) = plant.github.check_runs(NAME)
    assert "+    return a + b" in check.output["summary"]
