"""Publishing to the local GitHub: one branch, one commit, one pull request, one comment, whatever happens in between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from agent.contract.budget import Usage
from agent.contract.outcome import CheckEvidence, Evidence, Iteration, NoRepair, Outcome, ReflectionLog, Repair
from agent.contract.proposal import Diagnosis, FileChange
from agent.contract.question import Question
from agent.contract.verdicts import VerdictId
from app.github.client import GitHub
from app.github.errors import Conflict, Forbidden, Invalid
from app.github.repository import Repository
from app.github.retries import RetryPolicy
from app.github.types import PUBLISHING
from app.publish import messages, publish
from app.publish.messages import Publication
from app.publish.publish import Published
from tests.standins.github import GitHub as StandIn
from tests.standins.github.faults import ConnectionReset
from tests.standins.github.git.plumbing import Signature
from tests.standins.github.state import PullRequest, Ruleset
from tests.tiers import long_but
from webhooks.intake import RepositoryRef

NAME = "acme/sample"
PAGE = "https://selfheal.example.com/attempts/att_1"
BROKEN, FIXED = "def add(a, b):\n    return a - b\n", "def add(a, b):\n    return a + b\n"
QUICK = RetryPolicy(tries=4, first_delay=0.01, longest_delay=0.02, longest_rate_limit=1.5, timeout=5, write_interval=0)
LOG = ReflectionLog(None, (Iteration(1, "patterns", "`-` becomes `+`", "-a\n+b", "verified"),), (), ())


@pytest.fixture
async def standin() -> AsyncIterator[StandIn]:
    async with StandIn() as standin:
        await standin.create_repository(NAME, {"calc.py": "def add(a, b):\n    return a + b\n", "dos.txt": "a\r\nb\r\n"})
        yield standin


@pytest.fixture
async def repository(standin: StandIn) -> AsyncIterator[Repository]:
    async with GitHub(standin.app_id, standin.private_key, api_url=standin.url, retry_policy=QUICK) as github:
        ref = RepositoryRef(standin.repository(NAME).id, NAME)
        yield github.repository(standin.installation("acme").id, ref, PUBLISHING)


@pytest.fixture
async def publication(standin: StandIn) -> Publication:
    """A person asked for a repair of the pull request `topic`."""
    sha = await standin.push(NAME, "topic", {"calc.py": BROKEN})
    pull = await standin.open_pull(NAME, "topic")
    return Publication(
        attempt_id="att-1",
        number=1,
        head_sha=sha,
        head_branch="topic",
        run_title="CI / tests",
        pull_number=pull.number,
        by_command=True,
        page_url=PAGE,
    )


def repair(*edits: FileChange, title: str = "`-` becomes `+` in add") -> Repair:
    test = (VerdictId("test_calc.py::test_add"),)
    evidence = Evidence((CheckEvidence("tests", "pytest", test, 1, 3, 1.0, 0, 4, 1.0, 1, 1.0),), "Python 3.11")
    diagnosis = Diagnosis("The operator is wrong.", "logic", 0.9, "verdicts and change")
    return Repair(edits or (FileChange("calc.py", BROKEN, FIXED),), title, diagnosis, evidence, 0.95, Usage(), LOG)


def no_repair(outcome: Outcome = Outcome.GAVE_UP) -> NoRepair:
    return NoRepair(outcome, "Forty changes were tried.", "Set a model.", Usage(), LOG)


async def published_once(standin: StandIn, publication: Publication, result: Published) -> None:
    branches = {name: sha for name, sha in (await standin.branches(NAME)).items() if name.startswith("selfheal/")}
    assert list(branches) == [result.branch]
    assert [c.sha for c in await standin.commits(NAME, f"topic..{result.branch}")] == [branches[result.branch]]
    assert await standin.file(NAME, "calc.py", result.branch) == FIXED.encode()
    [pull] = [p for p in standin.pull_requests(NAME, "all") if p.head_branch.startswith("selfheal/")]
    assert (pull.number, pull.head_sha, pull.base_branch, pull.draft) == (
        result.number, branches[result.branch], "topic", True,
    )  # fmt: skip
    [comment] = standin.comments(NAME, publication.pull_number or 0)
    assert f"#{pull.number}" in comment.body
    [check] = [run for run in standin.check_runs(NAME) if run.head_sha == publication.head_sha]
    [proof] = [run for run in standin.check_runs(NAME) if run.head_sha == pull.head_sha]
    assert (check.name, check.head_sha, check.conclusion) == ("Selfheal", publication.head_sha, "neutral")
    assert (proof.name, proof.head_sha, proof.conclusion) == ("Selfheal", pull.head_sha, "neutral")
    assert proof.output["title"] == "1 failing → 4 passing → 1 failing with the patch reverted"
    assert f"selfheal verify {result.url}" in proof.output["summary"]
    assert '"base": "' + publication.head_sha in proof.output["summary"]
    assert check.output["title"] == f"Repair in #{result.number}: 1 failing → 4 passing"
    assert check.details_url == PAGE
    for text in (comment.body, pull.body, check.output["summary"]):
        assert f"[Timeline of this attempt]({PAGE})" in text


async def test_a_repair_becomes_a_draft_pull_request(
    standin: StandIn, repository: Repository, publication: Publication
) -> None:
    await publish.progress(publication, repository, None)
    await publish.progress(publication, repository, "verify")
    result = await publish.pull_request(publication, repair(), repository)
    assert isinstance(result, Published)
    assert result.branch == f"selfheal/topic-{publication.head_sha[:8]}"
    await published_once(standin, publication, result)
    [commit] = await standin.commits(NAME, f"topic..{result.branch}")
    assert commit.parents == (publication.head_sha,)
    assert commit.sha in standin.repository(NAME).verified
    pull = standin.repository(NAME).issues[result.number]
    assert pull.title == f"Heal #{publication.pull_number}: change `-` to `+` in add"
    assert [label.name for label in pull.labels] == ["selfheal"]
    assert "1 of 1" in (pull.body or "")


@pytest.mark.parametrize(
    ("write", "status", "words"),
    [
        ("issues/*/labels", 403, "Resource not accessible by integration"),
        ("issues/*/labels", 410, "Issues are disabled for this repo"),
        ("pulls/*/requested_reviewers", 404, "Not Found"),
        ("pulls/*/requested_reviewers", 403, "Resource not accessible by integration"),
        # https://docs.github.com/communities/moderating-comments-and-conversations/locking-conversations
        ("issues/*/comments", 403, "Unable to create comment because issue is locked."),
        ("check-runs", 422, "Validation Failed"),
    ],
)
async def test_a_pull_request_is_published_though_what_stands_beside_it_is_refused(
    standin: StandIn, repository: Repository, publication: Publication, write: str, status: int, words: str
) -> None:
    standin.faults.refuse("POST", f"/repos/{NAME}/{write}", status, words, times=9)
    result = await publish.pull_request(replace(publication, pull_author="maria"), repair(), repository)
    assert isinstance(result, Published)
    assert result.number in {pull.number for pull in standin.pull_requests(NAME)}


@pytest.mark.parametrize("is_pushed_to", [False, True])
async def test_without_a_pull_request_no_branch_of_ours_is_left_behind(
    standin: StandIn, repository: Repository, publication: Publication, is_pushed_to: bool
) -> None:
    """https://docs.github.com/rest/pulls/pulls#create-a-pull-request: 422, also where only collaborators may open one."""
    reasons = [{"resource": "PullRequest", "code": "custom", "message": "Pull requests are restricted"}]
    standin.faults.refuse("POST", f"/repos/{NAME}/pulls", 422, "Validation Failed", reasons, times=9)

    async def push(method: str, path: str) -> None:
        await standin.push(NAME, f"selfheal/topic-{publication.head_sha[:8]}", {"mine.txt": "A person's.\n"})

    if is_pushed_to:
        standin.faults.on("POST", f"/repos/{NAME}/pulls", push, "before")
    with pytest.raises(Invalid, match="restricted"):
        await publish.pull_request(publication, repair(), repository)
    left = [name for name in await standin.branches(NAME) if name.startswith("selfheal/")]
    assert len(left) == is_pushed_to, "what a person pushed stays"


async def test_workflow_files_that_are_refused_by_422_are_a_missing_permission(
    standin: StandIn, repository: Repository, publication: Publication
) -> None:
    words = (
        "refusing to allow a GitHub App to create or update workflow `.github/workflows/a.yml` without `workflows` permission"
    )
    standin.faults.refuse("POST", f"/repos/{NAME}/git/refs", 422, words)
    with pytest.raises(Forbidden) as refused:
        await publish.pull_request(publication, repair(), repository)
    assert refused.value.said == words


async def test_publishing_again_writes_nothing_anew(standin: StandIn, repository: Repository, publication: Publication) -> None:
    first = await publish.pull_request(publication, repair(), repository)
    before = len(standin.requests)
    assert await publish.pull_request(publication, repair(), repository) == first
    writes = [r for r in standin.requests[before:] if r.startswith(("POST", "PATCH", "PUT"))]
    assert not [w for w in writes if "/git/trees" not in w and "/check-runs/" not in w]
    assert isinstance(first, Published)
    await published_once(standin, publication, first)


WRITES = ("/git/trees", "/git/commits", "/git/refs", "/pulls", "/issues/*/labels", "/check-runs", "/issues/*/comments")


@pytest.mark.parametrize("moment", long_but(["before", "after"], "after"))
@pytest.mark.parametrize("write", WRITES)
async def test_killed_at_any_write_and_run_again_leaves_one_of_everything(
    standin: StandIn, repository: Repository, publication: Publication, write: str, moment: str
) -> None:
    killed = asyncio.Event()
    running = asyncio.create_task(publish.pull_request(publication, repair(), repository))

    async def kill(method: str, path: str) -> None:
        if not killed.is_set():
            killed.set()
            running.cancel()
            await asyncio.wait([running])
            if moment == "before":
                raise ConnectionReset  # the request never arrived

    standin.faults.on("POST", f"/repos/*{write}", kill, moment)  # type: ignore[arg-type]
    with pytest.raises(asyncio.CancelledError):
        await running
    assert killed.is_set()
    result = await publish.pull_request(publication, repair(), repository)
    assert isinstance(result, Published)
    await published_once(standin, publication, result)


async def test_the_late_branch_of_a_worker_that_died_is_taken_over(
    standin: StandIn, repository: Repository, publication: Publication
) -> None:
    git, late = standin.repository(NAME).git, []

    async def arrive(method: str, path: str) -> None:
        tree = await git.write_tree(publication.head_sha, {"calc.py": ("100644", await git.write_blob(FIXED.encode()))})
        who = Signature("selfheal[bot]", "selfheal@example.com", datetime(2026, 1, 1, tzinfo=UTC))
        message = messages.commit_message(publication, repair())
        late.append(await git.write_commit(tree, (publication.head_sha,), message, who, who))
        await git.set_ref(f"refs/heads/{publish.branch_name(publication)}", late[0])

    standin.faults.on("POST", "/repos/*/git/refs", arrive, "before")
    result = await publish.pull_request(publication, repair(), repository)
    assert isinstance(result, Published)
    assert [(await standin.branches(NAME))[result.branch]] == late
    await published_once(standin, publication, result)


@pytest.mark.parametrize("fault", ["502", "reset"])
async def test_every_answer_lost_although_the_write_took_effect_leaves_one_of_everything(
    standin: StandIn, repository: Repository, publication: Publication, fault: str
) -> None:
    for write in WRITES:
        if fault == "502":
            standin.faults.status("POST", f"/repos/*{write}", 502, applied=True)
        else:
            standin.faults.reset("POST", f"/repos/*{write}", applied=True)
    result = await publish.pull_request(publication, repair(), repository)
    assert isinstance(result, Published)
    await published_once(standin, publication, result)
    assert all(fault_.times == 0 for fault_ in standin.faults.waiting)


async def test_another_repair_of_the_same_attempt_renews_what_is_there(
    standin: StandIn, repository: Repository, publication: Publication
) -> None:
    await publish.pull_request(publication, repair(FileChange("calc.py", BROKEN, "other = 1\n"), title="Another"), repository)
    result = await publish.pull_request(publication, repair(), repository)
    assert isinstance(result, Published)
    await published_once(standin, publication, result)
    assert "change `-` to `+`" in standin.repository(NAME).issues[result.number].title


async def test_a_further_attempt_renews_the_one_pull_request_of_the_head(
    standin: StandIn, repository: Repository, publication: Publication
) -> None:
    first = await publish.pull_request(publication, repair(FileChange("calc.py", BROKEN, "other = 1\n")), repository)
    second = await publish.pull_request(replace(publication, attempt_id="att-2", number=2), repair(), repository)
    assert isinstance(first, Published)
    assert isinstance(second, Published)
    assert (second.number, second.branch) == (first.number, first.branch)
    assert messages.pull_marker("att-2") in (standin.repository(NAME).issues[second.number].body or "")


@pytest.mark.parametrize("number", [1, 2])
async def test_another_branch_prefix_makes_no_second_pull_request(
    standin: StandIn, repository: Repository, publication: Publication, number: int
) -> None:
    first = await publish.pull_request(publication, repair(FileChange("calc.py", BROKEN, "other = 1\n")), repository)
    later = replace(publication, attempt_id=f"att-{number}", number=number, branch_prefix="bot/")
    second = await publish.pull_request(later, repair(), repository)
    assert isinstance(first, Published)
    assert isinstance(second, Published)
    assert (second.number, second.branch) == (first.number, first.branch)
    assert not [branch for branch in await standin.branches(NAME) if branch.startswith("bot/")]
    assert await standin.file(NAME, "calc.py", second.branch) == FIXED.encode()


async def test_another_branch_prefix_takes_no_pull_request_of_somebody_else(
    standin: StandIn, repository: Repository, publication: Publication
) -> None:
    name = publish.branch_name(publication)
    await standin.push(NAME, name, {"calc.py": FIXED}, base=publication.head_sha)
    theirs = await standin.open_pull(NAME, name, base="topic")
    result = await publish.pull_request(replace(publication, branch_prefix="bot/"), repair(), repository)
    assert isinstance(result, Published)
    assert (result.branch, result.number != theirs.number) == (f"bot/topic-{publication.head_sha[:8]}", True)


async def test_a_third_attempt_renews_the_open_pull_request_of_the_second(
    standin: StandIn, repository: Repository, publication: Publication
) -> None:
    first = await publish.pull_request(publication, repair(), repository)
    assert isinstance(first, Published)
    await standin.close_pull(NAME, first.number)
    second = await publish.pull_request(replace(publication, attempt_id="att-2", number=2), repair(), repository)
    third = await publish.pull_request(replace(publication, attempt_id="att-3", number=3), repair(), repository)
    assert third == second


async def test_a_closed_pull_request_stays_closed_and_a_further_attempt_gets_its_own(
    standin: StandIn, repository: Repository, publication: Publication
) -> None:
    first = await publish.pull_request(publication, repair(), repository)
    assert isinstance(first, Published)
    await standin.close_pull(NAME, first.number)
    assert await publish.pull_request(publication, repair(), repository) == replace(first, state="closed")
    second = await publish.pull_request(replace(publication, attempt_id="att-2", number=2), repair(), repository)
    assert isinstance(second, Published)
    assert second.branch == f"{first.branch}-2"
    assert [p.number for p in standin.pull_requests(NAME) if p.head_branch.startswith("selfheal/")] == [second.number]


async def repaired_anew(
    standin: StandIn, repository: Repository, publication: Publication, before: Published
) -> tuple[Published, PullRequest]:
    """The published repair of the next commit of the same branch, which fails too; and the pull request from before."""
    sha = await standin.push(NAME, "topic", {"notes.txt": "Still red.\n"})
    newer = replace(publication, attempt_id="att-2", head_sha=sha)
    result = await publish.pull_request(newer, repair(), repository)
    assert isinstance(result, Published)
    assert result.state == "open"
    [pull] = [pull for pull in standin.pull_requests(NAME, "all") if pull.number == before.number]
    return result, pull


async def test_a_repair_of_a_newer_commit_closes_the_pull_request_for_the_older_one(
    standin: StandIn, repository: Repository, publication: Publication
) -> None:
    first = await publish.pull_request(publication, repair(), repository)
    assert isinstance(first, Published)
    second, older = await repaired_anew(standin, repository, publication, first)
    assert older.state == "closed"
    assert older.body.startswith(f"**Closed:** Replaced by #{second.number}.\n")
    assert "**Proof:**" in older.body
    assert [name for name in await standin.branches(NAME) if name.startswith("selfheal/")] == [second.branch]
    assert len(standin.pull_requests(NAME)) == 2, "the one that broke, and the newest repair"


@pytest.mark.parametrize("whose", ["their commit", "their pull request"])
async def test_a_repair_of_a_newer_commit_leaves_alone_what_is_a_persons(
    standin: StandIn, repository: Repository, publication: Publication, whose: str
) -> None:
    first = await publish.pull_request(publication, repair(), repository)
    assert isinstance(first, Published)
    if whose == "their commit":
        await standin.push(NAME, first.branch, {"more.py": "z = 1\n"})
    else:
        await standin.close_pull(NAME, first.number)
        theirs = await standin.open_pull(NAME, first.branch, "topic")
        first = replace(first, number=theirs.number)
    _, older = await repaired_anew(standin, repository, publication, first)
    assert older.state == "open"
    assert first.branch in await standin.branches(NAME)


async def test_a_persons_commits_on_our_branch_are_not_touched(
    standin: StandIn, repository: Repository, publication: Publication
) -> None:
    first = await publish.pull_request(publication, repair(), repository)
    assert isinstance(first, Published)
    theirs = await standin.push(NAME, first.branch, {"more.py": "z = 1\n"})
    again = await publish.pull_request(publication, repair(title="Another"), repository)
    assert isinstance(again, Published)
    assert again.number == first.number
    assert (await standin.branches(NAME))[first.branch] == theirs


async def test_a_foreign_branch_of_that_name_is_a_conflict(
    standin: StandIn, repository: Repository, publication: Publication
) -> None:
    theirs = await standin.push(NAME, publish.branch_name(publication), {"mine.py": "z = 1\n"})
    with pytest.raises(Conflict, match="not changed"):
        await publish.pull_request(publication, repair(), repository)
    assert (await standin.branches(NAME))[publish.branch_name(publication)] == theirs


async def test_a_branch_that_was_deleted_meanwhile_is_superseded(
    standin: StandIn, repository: Repository, publication: Publication
) -> None:
    result = await publish.pull_request(replace(publication, head_branch="gone"), repair(), repository)
    assert isinstance(result, NoRepair)
    assert result.outcome is Outcome.SUPERSEDED
    assert not [r for r in standin.requests if r.startswith("POST /repos")]


async def test_line_ends_of_the_commit_are_kept(standin: StandIn, repository: Repository, publication: Publication) -> None:
    edits = (FileChange("calc.py", BROKEN, FIXED), FileChange("dos.txt", "a\nb\n", "a\nc\n"), FileChange("new.py", None, "n\n"))
    result = await publish.pull_request(publication, repair(*edits), repository)
    assert isinstance(result, Published)
    assert await standin.file(NAME, "dos.txt", result.branch) == b"a\r\nc\r\n"
    assert await standin.file(NAME, "new.py", result.branch) == b"n\n"


@pytest.mark.parametrize(
    "change",
    [FileChange("calc.py", "something else\n", "x\n"), FileChange("calc.py", None, "x\n"), FileChange("none.py", "a\n", None)],
)
async def test_a_repair_that_does_not_fit_the_commit_is_refused(
    standin: StandIn, repository: Repository, publication: Publication, change: FileChange
) -> None:
    with pytest.raises(Conflict):
        await publish.pull_request(publication, repair(change), repository)
    assert not [r for r in standin.requests if r.startswith("POST /repos")]


async def test_an_explanation_ends_the_check_and_answers_only_who_asked(
    standin: StandIn, repository: Repository, publication: Publication
) -> None:
    for _ in range(2):
        await publish.explanation(publication, no_repair(), repository)
    [check] = standin.check_runs(NAME)
    assert (check.status, check.conclusion) == ("completed", "neutral")
    assert "Forty changes were tried" in check.output["summary"]
    [comment] = standin.comments(NAME, publication.pull_number or 0)
    assert "Set a model" in comment.body


@pytest.mark.parametrize("what", ["check-runs", "issues/comments"])
async def test_what_somebody_deletes_right_before_it_is_renewed_is_made_anew(
    standin: StandIn, repository: Repository, publication: Publication, what: str
) -> None:
    await publish.explanation(publication, no_repair(), repository)
    shown, comments = standin.repository(NAME).check_runs, standin.repository(NAME).comments

    def delete(_method: str, _path: str) -> None:
        (shown if what == "check-runs" else comments).clear()
        standin.faults.hooks.clear()

    standin.faults.on("PATCH", f"/repos/{NAME}/{what}/*", delete, "before")
    await publish.explanation(publication, no_repair(Outcome.FLAKY), repository)
    [check] = standin.check_runs(NAME)
    [comment] = standin.comments(NAME, publication.pull_number or 0)
    assert check.output["title"].startswith("Flaky. ")
    assert "**Not repaired (flaky):**" in comment.body


async def test_nobody_is_bothered_who_did_not_ask(standin: StandIn, repository: Repository, publication: Publication) -> None:
    await publish.explanation(replace(publication, by_command=False), no_repair(), repository)
    await publish.explanation(replace(publication, pull_number=None), no_repair(), repository)
    assert standin.comments(NAME, publication.pull_number or 0) == []


def untold(publication: Publication) -> Publication:
    """An automatic attempt on the same pull request, whose author wants to be told."""
    return replace(publication, by_command=False, tells_author=True)


async def test_the_author_has_one_comment_that_stays_true(
    standin: StandIn, repository: Repository, publication: Publication
) -> None:
    number = publication.pull_number or 0
    await publish.explanation(untold(publication), no_repair(), repository)
    assert standin.comments(NAME, number) == [], "an attempt that found nothing is not worth a notification"

    await publish.question(untold(publication), Question("publish", "Publish this?", "+a"), repository)
    [asked] = standin.comments(NAME, number)
    assert "waits for approval" in asked.body
    assert "attempts approve" not in asked.body, "the author has no shell on the operator's machine"

    later = replace(untold(publication), attempt_id="att-2")
    for result, said in ((no_repair(Outcome.FLAKY), "**Not repaired (flaky):**"), (no_repair(), "found no repair")):
        await publish.explanation(later, result, repository)
        [told] = standin.comments(NAME, number)
        assert (told.id, said in told.body) == (asked.id, True)


async def test_a_reply_to_a_command_is_a_comment_of_its_own(
    standin: StandIn, repository: Repository, publication: Publication
) -> None:
    await publish.explanation(untold(publication), no_repair(Outcome.FLAKY), repository)
    await publish.explanation(replace(publication, tells_author=True), no_repair(), repository)
    assert len(standin.comments(NAME, publication.pull_number or 0)) == 2


async def test_only_an_author_who_can_review_is_asked(
    standin: StandIn, repository: Repository, publication: Publication
) -> None:
    for login, asked in (("stranger", []), ("alice", ["alice"])):
        standin.add_collaborator(NAME, "alice")
        result = await publish.pull_request(replace(publication, pull_author=login), repair(), repository)
        assert isinstance(result, Published)
        [pull] = [pull for pull in standin.pull_requests(NAME) if pull.number == result.number]
        assert [reviewer.login for reviewer in pull.reviewers] == asked


@pytest.mark.parametrize("letter", long_but(["漢", "Ж", "🙂", "a", "@a "], "漢"))
async def test_github_takes_the_beginning_of_a_long_patch(
    standin: StandIn, repository: Repository, publication: Publication, letter: str
) -> None:
    after = "".join(f"# {letter * 70}\n" for _ in range(600))
    await publish.patch(publication, repair(FileChange("calc.py", BROKEN, after)), "No.", repository)
    [check] = standin.check_runs(NAME)
    summary = check.output["summary"]
    assert len(summary.encode()) > 25_000
    assert summary.count("\n```") == 2
    assert "**Next:** Review the diff" in summary
    await publish.outdated(publication, messages.green_now(publication.head_sha), repository)
    assert "nothing to do" in check.output["summary"], "there is room for it"


async def test_github_takes_the_ending_of_every_outcome(
    standin: StandIn, repository: Repository, publication: Publication
) -> None:
    for outcome in Outcome:
        await publish.explanation(replace(publication, attempt_id=f"att-{outcome}"), no_repair(outcome), repository)
    checks = standin.check_runs(NAME)
    assert [check.status for check in checks] == ["completed"] * len(Outcome)
    assert len({check.output["title"] for check in checks}) == len(Outcome)


async def test_no_token_reaches_what_is_published(standin: StandIn, repository: Repository, publication: Publication) -> None:
    await repository.branch_head("main")
    secrets = tuple(standin.tokens.known)
    evil = repair(title=f"use {secrets[0]} and k3y-of-ours")
    result = await publish.pull_request(replace(publication, secrets=("k3y-of-ours",)), evil, repository)
    assert isinstance(result, Published)
    issue = standin.repository(NAME).issues[result.number]
    [commit] = await standin.commits(NAME, f"topic..{result.branch}")
    for text in (issue.title, issue.body or "", commit.message, *(str(run.output) for run in standin.check_runs(NAME))):
        assert "k3y-of-ours" not in text
        assert not any(secret in text for secret in secrets)


def test_branch_names_are_safe_and_tell_their_origin() -> None:
    for branch in ("feature/Über-cool", "a..b.lock", "-x", "~^:?*[", "x" * 300):
        where = Publication("a", 1, "f" * 40, branch, "t")
        name = publish.branch_name(where)
        assert name.startswith("selfheal/")
        assert set(name.removeprefix("selfheal/")) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
        assert name == publish.branch_name(replace(where, attempt_id="b"))
        assert publish.branch_name(where, 3) == f"{name}-3"


async def test_names_and_titles_follow_the_rules_of_the_repository(
    standin: StandIn, repository: Repository, publication: Publication
) -> None:
    standin.repository(NAME).ruleset = Ruleset(branch_name="^bot/", commit_message=r"^fix\(ci\): ", requires_signatures=True)
    wanted = replace(publication, branch_prefix="bot/", commit_prefix="fix(ci):")
    result = await publish.pull_request(wanted, repair(), repository)
    assert isinstance(result, Published)
    assert result.branch == f"bot/topic-{publication.head_sha[:8]}"
    pull = standin.repository(NAME).issues[result.number]
    assert pull.title == f"fix(ci): Heal #{publication.pull_number}: change `-` to `+` in add"


@pytest.mark.parametrize("path", ["calc.py", "planted-secret-of-this-worker.py"])
async def test_a_repair_with_a_secret_of_the_installation_is_not_pushed(
    standin: StandIn, repository: Repository, publication: Publication, path: str
) -> None:
    secret = "planted-secret-of-this-worker"
    leaks = FileChange("calc.py", BROKEN, f"{FIXED}KEY = '{secret}'\n") if path == "calc.py" else FileChange(path, None, "")
    result = await publish.pull_request(replace(publication, secrets=(secret,)), repair(leaks), repository)
    assert isinstance(result, NoRepair)
    assert result.outcome is Outcome.REFUSED
    assert "would write a secret" in result.reason
    assert not [name for name in await standin.branches(NAME) if name.startswith("selfheal/")]
    await publish.explanation(replace(publication, secrets=(secret,)), result, repository)
    assert secret not in str([comment.body for comment in standin.comments(NAME, publication.pull_number or 0)])
    assert not [body for body in standin.api.bodies if secret.encode() in body]


async def test_a_secret_that_the_repository_contains_anyway_keeps_no_repair_back(
    standin: StandIn, repository: Repository, publication: Publication
) -> None:
    result = await publish.pull_request(replace(publication, secrets=("return a",)), repair(), repository)
    assert isinstance(result, Published)
