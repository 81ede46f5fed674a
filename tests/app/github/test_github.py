"""The gateway against the local GitHub, over real sockets; every call is judged by GitHub's own description."""

from __future__ import annotations

import io
import itertools
import re
import tarfile
import tracemalloc
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from time import monotonic

import pytest

from app.github.channel import Token
from app.github.client import GitHub
from app.github.errors import (
    BadCredentials,
    BranchTaken,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    RateLimited,
    TooLarge,
    Unavailable,
)
from app.github.repository import Repository
from app.github.retries import Rate, RetryPolicy, WritePacer
from app.github.types import PUBLISHING, READING, CheckOutput, CheckReport, Permission
from tests.app.requests import failing
from tests.standins.github import GitHub as StandIn
from tests.standins.github.auth import private_pem
from tests.standins.github.faults import Fault
from tests.standins.github.git.plumbing import Signature
from tests.standins.github.limits import LIMITS
from tests.standins.github.routing import Answer, Refusal
from webhooks.intake import RepositoryRef

NAME = "acme/sample"
WORKFLOW = """\
name: CI
on: [push]
jobs:
  good:
    runs-on: ubuntu-latest
    steps:
      - run: echo fine
  bad:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - name: Test it
        run: echo told-you-so; exit 3
"""
SHOWN = CheckOutput("t", "s")
QUICK = RetryPolicy(
    tries=4, first_delay=0.01, longest_delay=0.02, longest_rate_limit=1.5, timeout=5, download=5, write_interval=0
)


@pytest.fixture
async def standin() -> AsyncIterator[StandIn]:
    async with StandIn() as standin:
        await standin.create_repository(NAME, {"a.py": "x = 1\n", "pkg/b.py": "y = 1\n"})
        yield standin


@pytest.fixture
async def github(standin: StandIn) -> AsyncIterator[GitHub]:
    async with GitHub(standin.app_id, standin.private_key, api_url=standin.url, retry_policy=QUICK) as github:
        yield github


def ref(standin: StandIn, name: str = NAME) -> RepositoryRef:
    return RepositoryRef(standin.repository(name).id, name)


@pytest.fixture
def reader(standin: StandIn, github: GitHub) -> Repository:
    return github.repository(standin.installation("acme").id, ref(standin), READING)


@pytest.fixture
def writer(standin: StandIn, github: GitHub) -> Repository:
    return github.repository(standin.installation("acme").id, ref(standin), PUBLISHING)


def count(standin: StandIn, request: str) -> int:
    return sum(line.startswith(request) for line in standin.requests)


# Reads


async def test_a_red_run_is_read_down_to_the_failed_step_and_its_log(standin: StandIn, reader: Repository) -> None:
    sha = await standin.push(NAME, "main", {".github/workflows/ci.yml": WORKFLOW}, "Add CI")
    await standin.settled()
    [run] = failing(await reader.runs(sha))
    assert (run.name, run.path, run.conclusion) == ("CI", ".github/workflows/ci.yml", "failure")
    assert await reader.run(run.id) == run
    [job] = await reader.failed_jobs(run)
    assert job.name == "bad"
    assert job.failed_step is not None
    assert job.failed_step.name == "Test it"
    log = await reader.job_log(job.id, 1_000_000)
    assert "told-you-so" in log
    assert "bytes omitted" not in log


async def test_a_long_log_keeps_its_head_and_its_tail(standin: StandIn, reader: Repository) -> None:
    noisy = WORKFLOW.replace("echo told-you-so; exit 3", "echo first-words; seq 1 40000; echo last-words; exit 1")
    sha = await standin.push(NAME, "main", {".github/workflows/ci.yml": noisy}, "Add CI")
    await standin.settled()
    [run] = failing(await reader.runs(sha))
    [job] = await reader.failed_jobs(run)
    log = await reader.job_log(job.id, limit=8000)
    assert len(log) < 8200
    assert "last-words" in log
    (omitted,) = re.findall(r"(\d+) bytes omitted", log)
    assert int(omitted) > 192_000


@pytest.mark.parametrize("size", [pytest.param(1 << 30, marks=pytest.mark.long), 64 << 20])
async def test_a_log_of_a_gigabyte_is_never_held_as_a_whole(standin: StandIn, size: int) -> None:
    patient = GitHub(standin.app_id, standin.private_key, api_url=standin.url, retry_policy=replace(QUICK, download=60))
    reader = patient.repository(standin.installation("acme").id, ref(standin), READING)
    sha = await standin.push(NAME, "main", {".github/workflows/ci.yml": WORKFLOW}, "Add CI")
    await standin.settled()
    [run] = failing(await reader.runs(sha))
    [job] = await reader.failed_jobs(run)
    standin.downloads.size = size
    tracemalloc.start()
    try:
        log = await reader.job_log(job.id, limit=4 << 20)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        await patient.close()
    assert f"{size - (4 << 20)} bytes omitted" in log
    assert most < 48 << 20


async def test_the_archive_comes_from_the_other_host_without_our_token(standin: StandIn, reader: Repository) -> None:
    head = await reader.branch_head("main")
    assert head is not None
    data = b"".join([chunk async for chunk in reader.archive(head)])
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        assert {name.partition("/")[2] for name in tar.getnames()} >= {"a.py", "pkg/b.py"}
    assert standin.downloads.served
    assert standin.downloads.leaks == []


async def test_an_archive_that_is_too_large_is_cut_off(standin: StandIn, reader: Repository) -> None:
    with pytest.raises(TooLarge):
        async for _ in reader.archive("main", limit=50):
            pass


async def test_files_are_bytes_and_absence_is_none(standin: StandIn, reader: Repository) -> None:
    sha = await standin.push(NAME, "topic/a#1", {"d/ü ?#%20.bin": b"\xff\x00", "big.txt": b"0123456789" * 150_000})
    assert await reader.file("d/ü ?#%20.bin", sha) == b"\xff\x00"
    assert await reader.file("big.txt", sha) == b"0123456789" * 150_000
    assert await reader.file("missing.py", sha) is None
    assert await reader.file("pkg", sha) is None
    assert await reader.branch_head("topic/a#1") == sha
    assert await reader.branch_head("no/such") is None
    commit = await reader.commit(sha)
    assert [parent.sha for parent in commit.parents] == [(await standin.branches(NAME))["main"]]


async def test_permissions_of_people(standin: StandIn, reader: Repository) -> None:
    standin.add_collaborator(NAME, "wendy", "write")
    standin.add_collaborator(NAME, "rita", "read")
    assert await reader.permission("acme") is Permission.ADMIN
    assert (await reader.permission("wendy")).can_write
    assert not (await reader.permission("rita")).can_write
    assert await reader.permission("nobody-at-all") in (Permission.NONE, Permission.READ)


async def test_a_pull_request_tells_its_head_and_where_it_comes_from(standin: StandIn, reader: Repository) -> None:
    sha = await standin.push(NAME, "topic", {"a.py": "x = 2\n"})
    pull = await standin.open_pull(NAME, "topic")
    read = await reader.pull(pull.number)
    assert read.head.repo is not None
    assert (read.head.sha, read.head.ref, read.head.repo.full_name, read.state) == (sha, "topic", NAME, "open")


async def test_what_has_not_changed_is_not_sent_again(standin: StandIn, github: GitHub, reader: Repository) -> None:
    """https://docs.github.com/rest/using-the-rest-api/best-practices-for-using-the-rest-api#use-conditional-requests-if-appropriate"""
    first = await reader.branch_head("main")
    assert await reader.branch_head("main") == first
    assert [request.rpartition("> ")[2] for request in standin.requests[-2:]] == ["200", "304"]
    await standin.push(NAME, "main", {"a.py": "x = 2\n"})
    assert await reader.branch_head("main") not in (None, first)
    assert standin.requests[-1].endswith("> 200")
    ref = RepositoryRef(standin.repository(NAME).id, NAME, private=standin.repository(NAME).private)
    other = github.repository(standin.installation("acme").id, ref, PUBLISHING)
    assert await other.branch_head("main") == await reader.branch_head("main")
    assert [request.rpartition("> ")[2] for request in standin.requests[-2:]] == ["200", "304"], "an ETag is for one token"


async def test_large_answers_are_kept_too_and_the_oldest_make_room(standin: StandIn, reader: Repository) -> None:
    sha = await standin.push(NAME, "main", {f"{number}.txt": str(number) * 900_000 for number in range(9)})
    for number in range(20):
        standin.set_check(NAME, sha, f"part {number}", "failure", summary="x" * 5_000)
    assert len(await reader.other_checks(sha)) == len(await reader.other_checks(sha)) == 20
    for number in (*range(9), 8, 0):
        assert await reader.file(f"{number}.txt", sha) == str(number).encode() * 900_000
    statuses = [request.rpartition("> ")[2] for request in standin.requests if request.startswith("GET /repos/")]
    assert statuses == ["200", "304", *["200"] * 9, "304", "200"]


async def test_check_runs_of_other_apps_only(standin: StandIn, reader: Repository, writer: Repository) -> None:
    sha = await standin.push(NAME, "main", {".github/workflows/ci.yml": WORKFLOW}, "Add CI")
    await standin.settled()
    await writer.report_check(CheckReport("Selfheal", sha, "a1", "completed", SHOWN, "failure"))
    assert await reader.other_checks(sha) == ()
    for name, conclusion in (("lint", "failure"), ("docs", "success"), ("tests", None)):
        standin.set_check(NAME, sha, name, conclusion, title="2 findings", summary="pkg/a.py")
    checks = await reader.other_checks(sha)
    assert {(check.name, check.is_failing, check.is_pending) for check in checks} == {
        ("lint", True, False), ("docs", False, False), ("tests", False, True),
    }  # fmt: skip
    [check] = [check for check in checks if check.is_failing]
    assert check.text == "lint (other-ci): 2 findings\npkg/a.py"


async def test_the_newest_status_of_each_name(standin: StandIn, reader: Repository) -> None:
    sha = await standin.push(NAME, "main", {"a.py": "x = 2\n"})
    assert await reader.statuses(sha) == ()
    for number in range(101):  # more than a page
        await standin.set_status(NAME, sha, f"part {number}", "pending")
    await standin.set_status(NAME, sha, "part 100", "error", "Broken", "https://ci.test/1")
    statuses = await reader.statuses(sha)
    assert statuses is not None
    assert (len(statuses), [status.name for status in statuses if status.is_failing]) == (101, ["part 100"])
    assert (statuses[-1].text, statuses[-1].url) == ("part 100: Broken", "https://ci.test/1")


async def test_a_permission_that_not_every_installation_needs_may_be_missing(standin: StandIn, reader: Repository) -> None:
    for name in ("actions", "statuses"):
        del standin.installation("acme").permissions[name]
    sha = await reader.branch_head("main")
    assert sha is not None, "the token was asked for without it"
    assert (await reader.runs(sha), await reader.statuses(sha)) == (None, None)
    del standin.installation("acme").permissions["checks"]
    standin.expire_tokens()
    with pytest.raises(Forbidden, match="does not grant actions=read, checks=read, statuses=read"):
        await reader.branch_head("main")


async def test_a_read_is_repeated_until_github_answers(standin: StandIn, reader: Repository) -> None:
    standin.faults.status("GET", "*/git/ref/*", 502, times=2)
    standin.faults.reset("GET", "*/git/ref/*")
    assert await reader.branch_head("main") is not None
    assert count(standin, "GET /repos/acme/sample/git/ref") == 4


async def test_a_read_is_given_up_in_the_end(standin: StandIn, reader: Repository) -> None:
    standin.faults.status("GET", "*/git/ref/*", 503, times=99)
    with pytest.raises(Unavailable, match="503"):
        await reader.branch_head("main")
    assert count(standin, "GET /repos/acme/sample/git/ref") == QUICK.tries


async def test_a_repository_that_is_gone_is_not_found(standin: StandIn, reader: Repository) -> None:
    await reader.branch_head("main")
    standin.remove_repository(NAME)
    with pytest.raises(NotFound):
        await reader.run(1)


# Tokens


async def test_a_token_is_for_one_repository_and_what_was_asked(standin: StandIn, github: GitHub, reader: Repository) -> None:
    other = await standin.create_repository("acme/secret", {"a": "1"}, private=True)
    await reader.branch_head("main")
    [token] = [t for t in standin.tokens.known.values() if t.expires is not None]
    assert token.actor.repository_ids == {reader.ref.id}
    assert other.id not in token.actor.repository_ids
    assert set(token.actor.permissions.values()) == {"read"}
    with pytest.raises(Forbidden):
        await reader.react(1, "eyes")


async def test_a_token_is_kept_and_renewed_when_it_expired(standin: StandIn, github: GitHub, reader: Repository) -> None:
    again = github.repository(standin.installation("acme").id, reader.ref, READING)
    for _ in range(2):
        await reader.branch_head("main")
        await again.branch_head("main")
    assert count(standin, "POST /app/installations") == 1
    standin.expire_tokens()
    assert await reader.branch_head("main") is not None
    assert count(standin, "POST /app/installations") == 2


def test_a_token_is_renewed_before_it_expires() -> None:
    now = datetime.now(UTC)
    assert Token("t", now + timedelta(minutes=30)).fresh
    assert not Token("t", now + timedelta(minutes=4)).fresh


async def test_a_write_that_met_an_expired_token_is_made_once(standin: StandIn, writer: Repository) -> None:
    issue = await standin.open_issue(NAME, "hello")
    await writer.branch_head("main")
    standin.expire_tokens()
    await writer.find_or_create_comment(issue.number, "<!-- m -->", "hi <!-- m -->")
    assert len(standin.comments(NAME, issue.number)) == 1


async def test_an_unknown_app_and_a_broken_key_are_bad_credentials(standin: StandIn) -> None:
    for app_id, key in ((1, standin.private_key), (standin.app_id, "not a key")):
        async with GitHub(app_id, key, api_url=standin.url, retry_policy=QUICK) as github:
            with pytest.raises(BadCredentials) as caught:
                await github.repository(1, ref(standin)).branch_head("main")
            assert "BEGIN" not in str(caught.value)


async def test_a_suspended_installation_is_told(standin: StandIn, reader: Repository) -> None:
    await reader.branch_head("main")
    standin.tell_installation("acme", "suspend")
    with pytest.raises(Forbidden, match="suspended"):
        await reader.branch_head("main")


async def test_github_that_cannot_be_reached_is_unavailable() -> None:
    async with GitHub(1, private_pem(), api_url="http://127.0.0.1:9", retry_policy=QUICK) as github:
        with pytest.raises(Unavailable):
            await github.repository(1, RepositoryRef(1, NAME, "main")).branch_head("main")


async def test_no_token_shows_in_a_repr_or_an_error(standin: StandIn, github: GitHub, reader: Repository) -> None:
    await reader.branch_head("main")
    channel = reader._channel
    token = channel._current[0]  # type: ignore[attr-defined]
    standin.faults.status("GET", "*/git/ref/*", 500, times=99)
    with pytest.raises(Unavailable) as caught:
        await reader.branch_head("main")
    for text in (repr(token), repr(reader), repr(github), repr(caught.value), repr(caught.value.__cause__)):
        assert token.token not in text
        assert "ghs_" not in text


# Rate limits


async def test_a_short_rate_limit_is_waited_for_even_by_a_write(standin: StandIn, writer: Repository) -> None:
    issue = await standin.open_issue(NAME, "hello")
    standin.faults.secondary_limit("POST", "*/comments", retry_after=1)
    standin.faults.primary_limit("GET", "*/comments", reset_in=1)
    await writer.find_or_create_comment(issue.number, "<!-- m -->", "hi <!-- m -->")
    assert len(standin.comments(NAME, issue.number)) == 1


async def test_a_long_rate_limit_is_raised_with_its_time(standin: StandIn, writer: Repository) -> None:
    standin.faults.secondary_limit("GET", "*/git/ref/*", retry_after=120)
    with pytest.raises(RateLimited) as caught:
        await writer.branch_head("main")
    assert caught.value.retry_after == 120
    standin.faults.secondary_limit("GET", "*/git/ref/*", retry_after=None)
    with pytest.raises(RateLimited) as caught:
        await writer.branch_head("main")
    assert caught.value.retry_after >= 60


# Writes


def strike(standin: StandIn, fault: str, path: str) -> None:
    match fault:
        case "answered 502 before":
            standin.faults.status("POST", path, 502)
        case "answered 502 although done":
            standin.faults.status("POST", path, 502, applied=True)
        case "reset although done":
            standin.faults.reset("POST", path, applied=True)


async def committed(writer: Repository, text: str = "x = 2\n") -> str:
    head = await writer.branch_head("main")
    assert head is not None
    tree = await writer.create_tree(head, {"a.py": text})
    return await writer.create_commit(head, tree, "Change a")


@pytest.mark.parametrize("fault", ["answered 502 before", "answered 502 although done", "reset although done"])
async def test_a_lost_answer_doubles_nothing(standin: StandIn, writer: Repository, fault: str) -> None:
    for path in ("*/git/trees", "*/git/commits", "*/git/refs", "*/pulls", "*/comments", "*/check-runs"):
        strike(standin, fault, path)
    sha = await committed(writer)
    await writer.create_branch("selfheal/x", sha)
    pull = await writer.find_or_create_pull("selfheal/x", "main", "t", "b")
    comment = await writer.find_or_create_comment(pull.number, "<!-- m -->", "hi <!-- m -->")
    check = await writer.report_check(CheckReport("Selfheal", sha, "a1", "queued", SHOWN))
    assert (await standin.branches(NAME))["selfheal/x"] == sha
    assert [p.number for p in standin.pull_requests(NAME, "all")] == [pull.number]
    assert [c.id for c in standin.comments(NAME, pull.number)] == [comment.id]
    assert [c.id for c in standin.check_runs(NAME)] == [check.id]


async def test_a_lost_answer_and_a_replica_that_lags_double_no_pull_request(standin: StandIn, writer: Repository) -> None:
    await writer.create_branch("selfheal/x", await committed(writer))
    standin.faults.status("POST", "*/pulls", 502, applied=True)
    standin.faults.lag("POST /repos/*/pulls", "/repos/*/pulls", times=1)
    pull = await writer.find_or_create_pull("selfheal/x", "main", "t", "b")
    assert [p.number for p in standin.pull_requests(NAME, "all")] == [pull.number]


async def test_a_check_run_that_the_listing_does_not_show_yet_is_not_doubled(standin: StandIn, github: GitHub) -> None:
    installation, sha = standin.installation("acme").id, (await standin.branches(NAME))["main"]
    standin.faults.lag("POST /repos/*/check-runs", "/repos/*/commits/*/check-runs")
    first = github.repository(installation, ref(standin), PUBLISHING)
    made = await first.report_check(CheckReport("Selfheal", sha, "a1", "queued", SHOWN))
    del first  # its channel too
    other = github.repository(installation, ref(standin), PUBLISHING)
    await other.report_check(CheckReport("Selfheal", sha, "a1", "completed", SHOWN, "neutral"))
    assert [(c.id, c.status) for c in standin.check_runs(NAME)] == [(made.id, "completed")]
    standin.repository(NAME).check_runs.clear()  # somebody deletes it
    await other.report_check(CheckReport("Selfheal", sha, "a1", "completed", SHOWN, "neutral"))
    assert [c.status for c in standin.check_runs(NAME)] == ["completed"]


async def test_copies_of_a_check_run_are_all_completed(standin: StandIn, writer: Repository) -> None:
    sha = (await standin.branches(NAME))["main"]
    standin.faults.status("POST", "*/check-runs", 502, applied=True)
    standin.faults.lag("POST /repos/*/check-runs", "/repos/*/commits/*/check-runs")
    await writer.report_check(CheckReport("Selfheal", sha, "a1", "in_progress", SHOWN))
    assert len(standin.check_runs(NAME)) == 2, "nobody could know of the first"
    await writer.report_check(CheckReport("Selfheal", sha, "a1", "completed", SHOWN, "neutral"))
    assert [c.status for c in standin.check_runs(NAME)] == ["completed", "completed"]


async def test_a_commit_keeps_modes_and_other_files_and_is_signed_as_the_apps(standin: StandIn, writer: Repository) -> None:
    git = standin.repository(NAME).git
    head = (await standin.branches(NAME))["main"]
    tree = await git.write_tree(head, {"run.sh": ("100755", await git.write_blob(b"#!/bin/sh\n"))})
    await git.run("update-ref", "refs/heads/main", await _raw_commit(standin, tree, head))
    head = (await standin.branches(NAME))["main"]
    files = {"run.sh": "#!/bin/sh\r\nexit 0\r\n", "pkg/b.py": None, "new/c.py": "é\n", "none": None}
    sha = await writer.create_commit(head, await writer.create_tree(head, files), "m")
    entries = {e.path: e.mode for e in await git.entries(sha, recursive=True) if e.kind == "blob"}
    assert entries == {"a.py": "100644", "run.sh": "100755", "new/c.py": "100644"}
    assert await standin.file(NAME, "run.sh", sha) == b"#!/bin/sh\r\nexit 0\r\n"
    assert await standin.file(NAME, "new/c.py", sha) == "é\n".encode()
    assert sha in standin.repository(NAME).verified
    assert [parent.sha for parent in (await writer.commit(sha)).parents] == [head]


async def _raw_commit(standin: StandIn, tree: str, parent: str) -> str:
    who = Signature("alice", "alice@example.com", datetime(2026, 1, 1, tzinfo=UTC))
    return await standin.repository(NAME).git.write_commit(tree, (parent,), "Raw", who, who)


async def test_a_link_is_never_written_over(standin: StandIn, writer: Repository) -> None:
    git = standin.repository(NAME).git
    head = (await standin.branches(NAME))["main"]
    tree = await git.write_tree(head, {"link": ("120000", await git.write_blob(b"/etc/passwd"))})
    sha = await _raw_commit(standin, tree, head)
    await git.run("update-ref", "refs/heads/main", sha)
    with pytest.raises(Conflict, match="link"):
        await writer.create_tree(sha, {"link": "x"})


async def test_a_branch_of_that_name_with_other_content_is_a_conflict(standin: StandIn, writer: Repository) -> None:
    sha = await committed(writer)
    await standin.push(NAME, "selfheal/x", {"a.py": "x = 3\n"})
    with pytest.raises(Conflict, match="points to"):
        await writer.create_branch("selfheal/x", sha)
    await writer.move_branch("selfheal/x", sha)
    assert (await standin.branches(NAME))["selfheal/x"] == sha


@pytest.mark.parametrize("taken", ["selfheal", "selfheal/a"])
async def test_a_branch_named_like_our_folder_is_named(standin: StandIn, writer: Repository, taken: str) -> None:
    sha = await committed(writer)
    await standin.push(NAME, taken, {"a.py": "x = 3\n"})
    with pytest.raises(BranchTaken, match=f"the branch {taken} exists, so GitHub makes none below `{taken}/`"):
        await writer.create_branch("selfheal/a/x", sha)


async def test_a_comment_of_somebody_else_with_our_marker_is_not_ours(standin: StandIn, writer: Repository) -> None:
    issue = await standin.open_issue(NAME, "hello")
    await standin.comment(NAME, issue.number, "mallory", "<!-- m --> mine")
    await writer.find_or_create_comment(issue.number, "<!-- m -->", "one <!-- m -->")
    await writer.find_or_create_comment(issue.number, "<!-- m -->", "two <!-- m -->")
    assert [c.body for c in standin.comments(NAME, issue.number)] == ["<!-- m --> mine", "two <!-- m -->"]


async def test_a_check_run_goes_from_queued_to_its_conclusion(standin: StandIn, writer: Repository) -> None:
    sha = (await standin.branches(NAME))["main"]
    for status, conclusion in (("queued", None), ("in_progress", None), ("completed", "neutral")):
        await writer.report_check(CheckReport("Selfheal", sha, "a1", status, SHOWN, conclusion))  # type: ignore[arg-type]
    await writer.report_check(CheckReport("Selfheal", sha, "a2", "queued", SHOWN))
    shown = [(c.name, c.external_id, c.status, c.conclusion) for c in standin.check_runs(NAME)]
    assert shown == [("Selfheal", "a1", "completed", "neutral"), ("Selfheal", "a2", "queued", None)]


async def test_a_refused_pull_request_is_told_in_githubs_words(standin: StandIn, writer: Repository) -> None:
    await writer.create_branch("same", (await standin.branches(NAME))["main"])
    with pytest.raises(Invalid, match="422 Validation Failed; No commits between main and same"):
        await writer.find_or_create_pull("same", "main", "t", "b")


@pytest.mark.parametrize("field", ["head", "base"])
async def test_a_branch_that_github_does_not_see_yet_is_waited_for(standin: StandIn, writer: Repository, field: str) -> None:
    await writer.create_branch("selfheal/x", await committed(writer))
    unseen = [{"resource": "PullRequest", "field": field, "code": "invalid"}]
    standin.faults.refuse("POST", "*/pulls", 422, "Validation Failed", unseen, times=2)
    await writer.find_or_create_pull("selfheal/x", "main", "t", "b")
    assert len(standin.pull_requests(NAME)) == 1

    standin.faults.refuse("POST", "*/pulls", 422, "Validation Failed", unseen, times=9)
    await writer.create_branch("selfheal/y", await committed(writer))
    with pytest.raises(Unavailable, match=f"{field} invalid"):
        await writer.find_or_create_pull("selfheal/y", "main", "t", "b")


async def test_content_that_is_submitted_too_quickly_is_a_rate_limit_of_minutes(standin: StandIn, writer: Repository) -> None:
    issue = await standin.open_issue(NAME, "hello")
    reasons = [{"resource": "IssueComment", "code": "unprocessable", "message": "was submitted too quickly"}]
    standin.faults.refuse("POST", "*/comments", 422, "Validation Failed", reasons)
    with pytest.raises(RateLimited, match="too quickly") as caught:
        await writer.find_or_create_comment(issue.number, "<!-- m -->", "<!-- m -->")
    assert caught.value.retry_after >= 120


async def test_a_plan_without_drafts_gets_an_ordinary_pull_request(standin: StandIn, writer: Repository) -> None:
    await writer.create_branch("selfheal/x", await committed(writer))
    refusal = Refusal(422, "Draft pull requests are not supported in this repository.").answer()
    standin.faults.waiting.append(Fault("POST", "*/pulls", 1, "answer", answer=refusal))
    await writer.find_or_create_pull("selfheal/x", "main", "t", "b")
    assert [p.draft for p in standin.pull_requests(NAME)] == [False]


def test_writes_after_a_burst_are_spaced() -> None:
    pace, now = WritePacer([Rate(3, 1.0)]), monotonic()
    assert [round(pace.reserve(now)) for _ in range(6)] == [0, 0, 0, 1, 2, 3]
    assert round(pace.reserve(now, longest=2.0)) == 4
    assert round(pace.reserve(now)) == 4, "what would have waited too long has no place"
    assert round(pace.reserve(now + 100)) == 0


def test_by_default_a_second_is_between_any_two_writes() -> None:
    """https://docs.github.com/rest/using-the-rest-api/best-practices-for-using-the-rest-api#pause-between-mutative-requests"""
    pace, now = WritePacer(RetryPolicy().write_rates), monotonic()
    assert [round(pace.reserve(now), 3) for _ in range(4)] == [0, 1, 2, 3]


async def test_writes_of_the_app_itself_have_a_pace_and_tokens_have_none(standin: StandIn) -> None:
    policy = replace(QUICK, write_interval=0.5)
    sent: list[float] = []
    standin.faults.on("POST", "/app/hook/*", lambda method, path: sent.append(monotonic()), "before")
    async with GitHub(standin.app_id, standin.private_key, api_url=standin.url, retry_policy=policy) as github:
        for number in range(3):
            with pytest.raises(NotFound):
                await github.redeliver(number)
        began = monotonic()
        ref = RepositoryRef(standin.repository(NAME).id, NAME)
        for permissions in (READING, {**READING, "issues": "read"}, PUBLISHING):
            await github.repository(standin.installation("acme").id, ref, permissions).branch_head("main")
    assert len(sent) == 3
    assert all(later - first >= 0.25 for first, later in itertools.pairwise(sent))
    assert monotonic() - began < 10


def test_the_pace_stays_within_githubs_limits() -> None:
    pace, now, sent = WritePacer(RetryPolicy().write_rates), monotonic(), []
    for _ in range(700):
        now += pace.reserve(now)
        sent.append(now)
    for most, seconds in LIMITS:
        assert all(later - first > seconds - 0.001 for first, later in zip(sent, sent[most:], strict=False))


def test_waiting_is_bounded_and_writes_are_repeated_after_rate_limits_only() -> None:
    retry_policy = RetryPolicy(tries=3, longest_rate_limit=60)
    assert retry_policy.delay(Unavailable("502"), 1, False) is None
    assert retry_policy.delay(Unavailable("502"), 1, True) is not None
    assert retry_policy.delay(Unavailable("502"), 3, True) is None
    assert (retry_policy.delay(RateLimited("slow", 20), 1, False) or 0) >= 20
    assert retry_policy.delay(RateLimited("slow", 61), 1, True) is None
    assert retry_policy.delay(NotFound("no"), 1, True) is None
    assert max(retry_policy.backoff(n) for n in range(1, 50)) <= retry_policy.longest_delay


async def test_a_reaction_is_there_once(standin: StandIn, writer: Repository) -> None:
    issue = await standin.open_issue(NAME, "hello")
    comment = await standin.comment(NAME, issue.number, "alice", "/heal")
    standin.faults.status("POST", "*/reactions", 502, applied=True)
    await writer.react(comment.id, "eyes")
    assert [r.content for r in standin.reactions(NAME)] == ["eyes"]


async def test_a_fenced_write_is_not_sent_and_not_repeated(standin: StandIn, github: GitHub) -> None:
    """The fence falls between the first sending and its repetition."""
    asked = 0

    def fence() -> None:
        nonlocal asked
        asked += 1
        if asked == 2:
            raise InterruptedError

    writer = github.repository(standin.installation("acme").id, ref(standin), PUBLISHING, fence)
    standin.faults.status("POST", "/repos/*/git/trees", 502)
    with pytest.raises(InterruptedError):
        await committed(writer)
    assert count(standin, "POST /repos/acme/sample/git/trees") == 1
    assert count(standin, "GET") > 0, "reading is nobody's harm"


async def test_a_short_page_does_not_end_a_listing_that_goes_on(standin: StandIn, writer: Repository) -> None:
    await standin.push(NAME, "topic", {"a.py": "x = 2\n"})
    number = (await standin.open_pull(NAME, "topic")).issue.number
    await writer.find_or_create_comment(number, "<!-- m -->", "hi <!-- m -->")
    path = f"/repos/{NAME}/issues/{number}/comments"
    short = Answer.of([], link=f'<{standin.url}{path}?per_page=100&page=1>; rel="next"')
    standin.faults.waiting.append(Fault("GET", path, 1, "answer", answer=short))
    await writer.find_or_create_comment(number, "<!-- m -->", "hi again <!-- m -->")
    assert [comment.body for comment in standin.comments(NAME, number)] == ["hi again <!-- m -->"]


async def test_what_follows_a_full_page_that_is_known_is_read(standin: StandIn, writer: Repository) -> None:
    await standin.push(NAME, "topic", {"a.py": "x = 2\n"})
    number = (await standin.open_pull(NAME, "topic")).issue.number
    for at in range(100):
        await standin.comment(NAME, number, "alice", f"comment {at}")
    await writer.edit_comment(number, "<!-- m -->", str.upper)
    await writer.find_or_create_comment(number, "<!-- m -->", "hi <!-- m -->")
    await writer.find_or_create_comment(number, "<!-- m -->", "hi again <!-- m -->")
    assert [comment.body for comment in standin.comments(NAME, number)][100:] == ["hi again <!-- m -->"]


async def test_a_listing_without_an_end_is_no_answer(standin: StandIn, writer: Repository) -> None:
    await standin.push(NAME, "topic", {"a.py": "x = 2\n"})
    number = (await standin.open_pull(NAME, "topic")).issue.number
    path = f"/repos/{NAME}/issues/{number}/comments"
    for target in (f"{standin.url}{path}?per_page=100", "http://[not/a/url"):
        short = Answer.of([], link=f'<{target}>; rel="next"')
        standin.faults.waiting += [Fault("GET", path, 1, "answer", answer=short) for _ in range(4)]
        with pytest.raises(Unavailable):
            await writer.edit_comment(number, "<!-- m -->", str.upper)
        standin.faults.waiting.clear()
