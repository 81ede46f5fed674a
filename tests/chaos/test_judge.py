"""The judge sees what is missing and what is there twice: each fault is made on the stand-in by hand."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.chaos.judge import Verdict, judge
from tests.chaos.stage import GREEN, PATH, RED
from tests.standins.github import GitHub
from tests.story.story import WORKFLOW

NAME = "acme/shelf"
HEALED = "selfheal/main-1"


@pytest.fixture
async def github() -> AsyncIterator[GitHub]:
    """A red run whose delivery was taken, and nothing done about it."""
    async with GitHub(judged=False) as github:
        workflow = WORKFLOW.format(command="exit 1", on="[push]")
        await github.create_repository(NAME, {".github/workflows/ci.yml": workflow, **GREEN})
        await github.push(NAME, "main", RED, "Break it")
        await github.settled()
        for delivery in github.deliveries:
            delivery.status_code = 202
        github.runner.enabled = False
        yield github


async def judged(github: GitHub) -> Verdict:
    return await judge(github, github.deliveries, GREEN[PATH], PATH)


async def heal(github: GitHub, branch: str = HEALED, text: str | bytes | None = None) -> None:
    await github.push(NAME, branch, {PATH: text or GREEN[PATH]}, "Heal it")
    await github.open_pull(NAME, branch)


def conclude(github: GitHub, times: int = 1) -> None:
    of = github.repository(NAME)
    sha = next(iter(of.runs.values())).head_sha
    for _ in range(times):
        suite = github._checks.open_suite(of, github.world.app, sha, "main", None)
        run = github._checks.open_run(of, suite, "Selfheal")
        run.status, run.conclusion = "completed", "success"


async def test_one_of_each_is_neither_lost_nor_doubled(github: GitHub) -> None:
    await heal(github)
    conclude(github)
    verdict = await judged(github)
    assert (verdict.red, verdict.lost, verdict.doubled) == (1, (), ())


async def test_nothing_done_is_lost(github: GitHub) -> None:
    assert len((await judged(github)).lost) == 3, "a branch, a pull request, a check run"


async def test_what_was_not_acknowledged_is_not_ours_to_lose(github: GitHub) -> None:
    for delivery in github.deliveries:
        delivery.status_code = 503
    assert await judged(github) == Verdict(0, 0, (), ())


async def test_a_repair_that_heals_nothing_is_lost(github: GitHub) -> None:
    await heal(github, text="broken")
    conclude(github)
    assert "does not heal" in str((await judged(github)).lost)


async def test_a_second_pull_request_is_doubled(github: GitHub) -> None:
    await heal(github)
    await heal(github, "selfheal/main-2")
    conclude(github)
    assert "2 pull requests" in str((await judged(github)).doubled)


async def test_a_second_commit_is_doubled(github: GitHub) -> None:
    await heal(github)
    await github.push(NAME, HEALED, {"notes.txt": "again"}, "Heal it again")
    conclude(github)
    assert "2 commits" in str((await judged(github)).doubled)


async def test_a_second_check_run_is_doubled(github: GitHub) -> None:
    await heal(github)
    conclude(github, times=2)
    assert "2 check runs" in str((await judged(github)).doubled)
