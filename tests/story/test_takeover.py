"""Any process may die between any two lines: another one finishes, and nothing is there twice."""

from __future__ import annotations

import pytest

from tests.story.story import Story
from tests.story.test_healing import BROKEN, CALCULATOR

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def _one_of_each(story: Story, repository: str, tries: int) -> None:
    """The last of so many workers healed it; one branch, commit, pull request and check run, and no sandbox, are left."""
    pull = await story.healed(repository)
    (attempt,) = await story.store.attempts(repository=repository)
    assert attempt.tries == tries  # else nobody was killed in the middle
    branches = [name for name in await story.github.branches(repository) if name.startswith("selfheal/")]
    assert branches == [pull.head_branch]
    assert len(await story.github.commits(repository, f"main..{pull.head_branch}")) == 1
    runs = story.github.check_runs(repository)
    assert [run.status for run in runs] == ["completed"] * 2
    assert len({run.head_sha for run in runs}) == 2, "on the failing commit and on the repair"
    await story.leaves_nothing()


@pytest.mark.long
async def test_a_worker_killed_in_the_middle_of_a_search_is_replaced(story: Story) -> None:
    await story.repository("acme/killed", CALCULATOR)
    await story.push("acme/killed", BROKEN)
    await story.reaches("acme/killed", "propose")
    story.service.workers[-1].kill()
    await story.service.start_worker()
    await _one_of_each(story, "acme/killed", tries=2)


@pytest.mark.long
@pytest.mark.parametrize(
    ("module_database_url", "writes"),
    [("sqlite", ("check-runs", "git/commits")), ("postgresql", ("git/refs", "pulls"))],
    ids=["sqlite-early", "postgresql-late"],
    indirect=["module_database_url"],
    scope="module",
)
async def test_workers_killed_after_a_write_leave_one_of_each(story: Story, writes: tuple[str, str]) -> None:
    """Two workers die, one after the other: each after a write that took effect and of which it never heard."""
    repository = f"acme/killed-{writes[0].replace('/', '-')}"
    await story.repository(repository, CALCULATOR)
    left = list(writes)

    def kill(_method: str, path: str) -> None:
        if left and path.endswith(left[0]):
            left.pop(0)
            story.service.workers[-1].kill()

    for write in writes:
        story.github.faults.on("POST", f"/repos/{repository}/{write}", kill, when="after")
    await story.push(repository, BROKEN)
    for _ in writes:
        await story.service.workers[-1].wait()
        await story.service.start_worker()
    await _one_of_each(story, repository, tries=3)
