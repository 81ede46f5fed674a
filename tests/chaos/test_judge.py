"""The judge sees what is missing and what is there twice: each fault is made on the stand-in by hand."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.chaos import judge as judge_module
from tests.chaos.judge import Blow, Request, Verdict, judge, taken_over
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


def answer(github: GitHub, number: int, repository: str = NAME) -> None:
    of = github.repository(repository)
    github._issues.create_comment(of, of.issues[number], github.world.account("selfheal[bot]", "Bot"), "Done.", by_app=True)


def conclude(github: GitHub, times: int = 1, sha: str | None = None) -> None:
    of = github.repository(NAME)
    sha = sha or next(iter(of.runs.values())).head_sha
    for _ in range(times):
        suite = github._checks.open_suite(of, github.world.app, sha, "main", None)
        run = github._checks.open_run(of, suite, "Selfheal")
        run.status, run.conclusion, run.output = (
            "completed",
            "neutral",
            {"title": f"{judge_module.HEALED}2: 1 failing → 2 passing"},
        )


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


async def test_an_answer_on_a_pull_request_that_nobody_asked_for_is_doubled(github: GitHub) -> None:
    await heal(github)
    conclude(github)
    (pull,) = github.pull_requests(NAME)
    answer(github, pull.number)
    verdict = await judged(github)
    assert (verdict.lost, verdict.doubled) == ((), (f"{NAME}: 1 answers on #{pull.number} instead of 0",))


async def test_an_answer_where_nothing_was_red_is_doubled(github: GitHub) -> None:
    await github.create_repository("acme/quiet", GREEN)
    issue = await github.open_issue("acme/quiet", "What a release")
    await github.comment("acme/quiet", issue.number, "alice", "Nothing to heal here.")
    answer(github, issue.number, "acme/quiet")
    assert f"acme/quiet: 1 answers on #{issue.number} instead of 0" in (await judged(github)).doubled


@pytest.mark.parametrize(("answers", "lost", "doubled"), [(0, 1, 0), (1, 0, 0), (2, 0, 1)])
async def test_a_command_is_answered_exactly_once(github: GitHub, answers: int, lost: int, doubled: int) -> None:
    await github.push(NAME, "topic", RED, "Break it elsewhere")
    asked = await github.open_pull(NAME, "topic")
    await github.comment(NAME, asked.number, "maria", "/heal")
    for delivery in github.deliveries:  # of the command alone
        delivery.status_code = 202 if delivery.event == "issue_comment" else 503
    await github.push(NAME, "selfheal/topic-1", {PATH: GREEN[PATH]}, "Heal it", base="topic")
    await github.open_pull(NAME, "selfheal/topic-1", "topic")
    conclude(github, sha=asked.head_sha)
    for _ in range(answers):
        answer(github, asked.number)
    verdict = await judged(github)
    assert (verdict.red, len(verdict.lost), len(verdict.doubled)) == (1, lost, doubled), verdict


ASKED = f"/repos/{NAME}/actions/runs/1"


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        (Request(9.0, "GET", ASKED, 8), "it came before the blow"),
        (Request(11.0, "GET", ASKED, 7), "the worker that was struck sent it"),
        (Request(11.0, "GET", ASKED, None), "the web process sent it, or a worker that is dead"),
        (Request(11.0, "GET", f"/repos/{NAME}-er/actions/runs/1", 8), "it is about another repository"),
        (Request(11.0, "POST", "/app/installations/1/access_tokens", 8), "it is about no repository"),
    ],
)
def test_what_shows_no_takeover(request_: Request, why: str) -> None:
    blow = Blow(NAME, 10.0, struck=7)
    assert taken_over(blow, [request_]) is None, why
    assert taken_over(blow, [request_, Request(22.5, "GET", ASKED, 8)]) == 12.5


def test_after_an_outage_whoever_works_on_shows_it() -> None:
    assert taken_over(Blow(NAME, 10.0), [Request(11.0, "GET", ASKED, None), Request(12.0, "GET", ASKED, 7)]) == 2.0
