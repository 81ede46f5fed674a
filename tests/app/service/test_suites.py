"""GitHub makes no check suite of ours for a push, in every repository that became known, whether it ever fails or not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.attempt.story import heal
from app.github.errors import Unavailable
from app.service.suites import stop_automatic_suites
from tests.app.plant import NAME, Plant
from tests.app.requests import taken
from tests.standins.github.state import CheckSuite
from webhooks.intake import InstallationChange, RepositoryRef


def suites(plant: Plant, sha: str) -> list[CheckSuite]:
    known = plant.github.repository(NAME).suites.values()
    return [suite for suite in known if suite.head_sha == sha and suite.app.id == plant.github.app_id]


def change(plant: Plant, action: str = "created") -> InstallationChange:
    """The webhook of an installation, which does not name default branches."""
    named = (RepositoryRef(plant.request.repository.id, NAME, private=False),)
    is_gone = action == "deleted"
    return InstallationChange(
        action, plant.request.installation_id, "acme", () if is_gone else named, named if is_gone else (), ()
    )


async def test_a_repository_that_is_added_gets_no_more_empty_suites(plant: Plant) -> None:
    before = await plant.github.push(NAME, "main", {"notes.txt": "x\n"})
    assert [suite.status for suite in suites(plant, before)] == ["queued"], "GitHub makes one, and nobody completes it"

    await taken(plant.store, change(plant))
    assert await stop_automatic_suites(plant.deps.github, plant.store) == 1
    after = await plant.github.push(NAME, "main", {"notes.txt": "y\n"})
    assert suites(plant, after) == []

    asked = len(plant.github.requests)
    assert await stop_automatic_suites(plant.deps.github, plant.store) == 0
    assert len(plant.github.requests) == asked, "once for each repository"


async def test_without_automatic_suites_the_check_run_of_a_failure_is_still_made(plant: Plant) -> None:
    await taken(plant.store, change(plant))
    await stop_automatic_suites(plant.deps.github, plant.store)
    sha = await plant.github.push(NAME, "main", {"notes.txt": "y\n"})
    await heal(await taken(plant.store, replace(plant.request, head_sha=sha)), plant.deps)
    assert plant.shown() == [("completed", "neutral")]
    assert [suite.status for suite in suites(plant, sha)] == ["completed"]


async def test_it_is_asked_again_after_github_was_away_and_after_a_new_installation(plant: Plant) -> None:
    await taken(plant.store, change(plant))
    plant.github.faults.status("PATCH", f"/repos/{NAME}/check-suites/preferences", 502, times=2)
    with pytest.raises(Unavailable):  # another worker may reach it
        await stop_automatic_suites(plant.deps.github, plant.store)
    assert await stop_automatic_suites(plant.deps.github, plant.store) == 1

    await taken(plant.store, change(plant, "deleted"))
    assert await stop_automatic_suites(plant.deps.github, plant.store) == 0
    await taken(plant.store, change(plant))
    assert await stop_automatic_suites(plant.deps.github, plant.store) == 1


async def test_a_refusal_is_not_repeated_every_minute(plant: Plant) -> None:
    del plant.github.installation("acme").permissions["checks"]
    await taken(plant.store, change(plant))
    assert await stop_automatic_suites(plant.deps.github, plant.store) == 1
    assert await stop_automatic_suites(plant.deps.github, plant.store) == 0
