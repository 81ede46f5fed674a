"""The author of a pull request that broke is told on it: by one comment, and by a request to review the repair."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.contract.outcome import Outcome
from app.attempt.story import heal
from tests.app.plant import NAME, TEST, Plant
from tests.app.requests import taken
from tests.standins.github.state import PullRequest

BROKEN = "def add(a, b):\n    return a - b\n"


async def opened(plant: Plant, configuration: str = "") -> PullRequest:
    """A pull request whose test is red; `configuration` is its base's."""
    wishes = f"test: python -m unittest\n{configuration}"
    await plant.github.push(NAME, "main", {".github/selfheal.yml": wishes})
    await plant.github.push(NAME, "topic", {"calc.py": BROKEN, "test_calc.py": TEST})
    return await plant.github.open_pull(NAME, "topic")


@pytest.mark.long
async def test_a_repair_is_told_on_the_pull_request_that_broke(plant: Plant) -> None:
    plant.github.add_collaborator(NAME, "alice")
    broken = await opened(plant)
    attempt_id = await taken(plant.store, replace(plant.request, head_sha=broken.head_sha, head_branch="topic"))
    await heal(attempt_id, plant.deps)
    assert (await plant.attempt(attempt_id)).outcome is Outcome.HEALED

    (repair,) = [pull for pull in plant.github.pull_requests(NAME) if pull.head_branch.startswith("selfheal/")]
    assert repair.title.startswith(f"Heal #{broken.number}: ")
    assert f"(#{broken.number})" in repair.body
    assert [reviewer.login for reviewer in repair.reviewers] == ["alice"]
    (told,) = plant.github.comments(NAME, broken.number)
    assert f"[#{repair.number}](" in told.body
    assert "**Confidence:**" in told.body


@pytest.mark.long
async def test_a_question_is_told_too_and_its_answer_replaces_it(plant: Plant) -> None:
    broken = await opened(plant, configuration="autonomy: review_publish\n")
    attempt_id = await taken(plant.store, replace(plant.request, head_sha=broken.head_sha, head_branch="topic"))
    await heal(attempt_id, plant.deps)
    (asked,) = plant.github.comments(NAME, broken.number)
    assert "waits for approval" in asked.body
    assert await plant.store.reply(attempt_id, approved=True) is None
    await heal(attempt_id, plant.deps)
    (told,) = plant.github.comments(NAME, broken.number)
    assert told.id == asked.id
    assert "contains a verified repair" in told.body


@pytest.mark.parametrize("is_told", [True, False])
async def test_a_repository_says_whether_the_author_is_told(plant: Plant, is_told: bool) -> None:
    broken = await opened(plant, configuration=f"comment_on_pull_request: {str(is_told).lower()}\nautonomy: review_publish\n")
    attempt_id = await taken(plant.store, replace(plant.request, head_sha=broken.head_sha, head_branch="topic"))
    await heal(attempt_id, plant.deps)
    assert (await plant.attempt(attempt_id)).status == "waiting"
    assert len(plant.github.comments(NAME, broken.number)) == is_told
    (run,) = plant.github.check_runs(NAME)
    assert "waits for approval" in run.output["summary"], "the check run always tells it"
