"""Any process may die between any two lines: another one finishes, and nothing is there twice."""

from __future__ import annotations

import pytest

from tests.story.story import Story
from tests.story.test_healing import BROKEN, CALCULATOR

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def _one_of_each(story: Story, repository: str) -> None:
    """The attempt is healed and left one branch, one commit, one pull request and one check run; no sandbox is left."""
    pull = await story.healed(repository)
    branches = [name for name in await story.github.branches(repository) if name.startswith("selfheal/")]
    assert branches == [pull.head_branch]
    assert len(await story.github.commits(repository, f"main..{pull.head_branch}")) == 1
    assert [run.status for run in story.github.check_runs(repository)] == ["completed"]
    await story.leaves_nothing()


async def test_a_worker_killed_in_the_middle_of_a_search_is_replaced(story: Story) -> None:
    await story.repository("acme/killed", CALCULATOR)
    await story.push("acme/killed", BROKEN)
    await story.reaches("acme/killed", "propose")
    story.service.workers[-1].kill()
    await story.service.start_worker()
    await _one_of_each(story, "acme/killed")


@pytest.mark.parametrize(
    ("name", "method", "path"),
    [
        ("branch", "POST", "/repos/acme/*/git/refs"),
        ("pull", "POST", "/repos/acme/*/pulls"),
    ],
)
async def test_a_worker_killed_between_two_writes_leaves_one_of_each(story: Story, name: str, method: str, path: str) -> None:
    """The write took effect, and the worker died before it heard of it."""
    repository = f"acme/killed-{name}"
    await story.repository(repository, CALCULATOR)
    killed = story.service.workers[-1]

    def kill(_method: str, served: str) -> None:
        if repository in served:
            killed.kill()

    story.github.faults.on(method, path, kill, when="after")
    await story.push(repository, BROKEN)
    await killed.wait()
    await story.service.start_worker()
    await _one_of_each(story, repository)
