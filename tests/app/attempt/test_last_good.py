"""The last good commit, as a real stand-in of GitHub tells it: the newest green ancestor, else the merge base, else none."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import msgspec
import pytest

from agent.contract.last_good import ChangedFile, LastGood
from app.attempt import last_good
from app.attempt.last_good import find_last_good
from app.github.client import GitHub
from app.github.errors import RateLimited
from app.github.repository import Repository
from app.github.retries import RetryPolicy
from app.github.types import READING, Comparison
from tests.app.requests import failing
from tests.standins import github as standin
from tests.standins.github.git.plumbing import Signature
from tests.standins.github.state import now
from webhooks.intake import RepositoryRef

NAME = "acme/boiler"
WORKFLOW = """\
name: CI
on: [push]
jobs:
  tests:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - run: "! grep -rq broken *.py"
"""
FILES: standin.Files = {".github/workflows/ci.yml": WORKFLOW, "a.py": "fine\n", "b.py": "also fine\n"}
HASTY = RetryPolicy(tries=2, first_delay=0.01, longest_delay=0.02, longest_rate_limit=0.0, write_interval=0.0)


@dataclass(frozen=True, slots=True)
class Past:
    """A repository whose workflow is red while a file says "broken"."""

    github: standin.GitHub
    repository: Repository

    async def push(self, branch: str, files: standin.Files, base: str | None = None) -> str:
        sha = await self.github.push(NAME, branch, files, base=base)
        await self.github.settled()
        return sha

    async def found(self, sha: str, branch: str) -> tuple[tuple[LastGood, ...], tuple[str, ...]]:
        runs = failing(await self.repository.runs(sha))
        return await find_last_good(sha, branch, runs, "main", self.repository)

    def asked(self, since: int) -> list[str]:
        gets = (line.removeprefix(f"GET /repos/{NAME}/") for line in self.github.requests[since:] if line.startswith("GET"))
        return [path.split("/")[0] for path in gets]


@pytest.fixture
async def past() -> AsyncIterator[Past]:
    async with (
        standin.GitHub() as github,
        GitHub(github.app_id, github.private_key, api_url=github.url, retry_policy=HASTY) as client,
    ):
        made = await github.create_repository(NAME, {"readme.txt": "A boiler.\n"})
        ref = RepositoryRef(made.id, NAME, "main")
        yield Past(github, client.repository(github.installation("acme").id, ref, READING))


@pytest.mark.long
async def test_the_newest_green_ancestor_is_the_last_good_one(past: Past) -> None:
    await past.push("main", FILES)
    green = await past.push("main", {"a.py": "fine, really\n"})
    await past.push("main", {"a.py": "broken\n"})
    red = await past.push("main", {"b.py": "very fine\n", "c.py": "new\n"})
    await past.push("main", {"a.py": "fine again\n"})
    since = len(past.github.requests)

    (good,), notes = await past.found(red, "main")

    assert good == LastGood(
        f"the last commit that passed CI (`{green[:10]}`)",
        (
            ChangedFile("a.py", patch="@@ -1 +1 @@\n-fine, really\n+broken"),
            ChangedFile("b.py", patch="@@ -1 +1 @@\n-also fine\n+very fine"),
            ChangedFile("c.py"),
        ),
        passed_in_ci=True,
    )
    assert notes == ()
    assert past.asked(since)[1:] == ["actions", "compare"], "two requests after the failing runs were listed"


async def test_a_branch_that_was_never_green_is_compared_with_where_it_left(past: Past) -> None:
    fork_point = await past.push("main", FILES)
    red = await past.push("topic", {"a.py": "broken\n"}, base="main")
    await past.push("main", {"b.py": "changed meanwhile\n"})

    (good,), notes = await past.found(red, "topic")

    assert good.name == f"the merge base with the default branch (`{fork_point[:10]}`)"
    assert not good.passed_in_ci
    assert [file.path for file in good.files] == ["a.py"]
    assert notes == ()


async def test_a_command_on_a_branch_without_runs_is_compared_with_where_it_left(past: Past) -> None:
    await past.push("main", {"a.py": "fine\n"})
    head = await past.push("topic", {"a.py": "broken\n"})
    assert failing(await past.repository.runs(head)) == ()
    (good,), _ = await past.found(head, "topic")
    assert [file.path for file in good.files] == ["a.py"]


async def test_the_messages_of_all_commits_since_are_told(past: Past) -> None:
    """With a parameter for pages, GitHub begins with the oldest commit: https://docs.github.com/rest/commits/commits"""
    await past.push("main", {"a.py": "fine\n"})
    for number in range(3):
        head = await past.github.push(NAME, "topic", {"a.py": f"broken {number}\n"}, f"Break it, part {number}")
    (good,), _ = await past.found(head, "topic")
    assert good.messages == "Break it, part 0\nBreak it, part 1\nBreak it, part 2"


async def test_a_green_commit_that_a_force_push_removed_is_not_the_last_good_one(past: Past) -> None:
    fork_point = await past.push("main", FILES)
    await past.push("topic", {"a.py": "fine, but thrown away\n"})
    await past.github.repository(NAME).git.set_ref("refs/heads/topic", fork_point)
    red = await past.push("topic", {"a.py": "broken\n"})
    (good,), _ = await past.found(red, "topic")
    assert good.name.startswith("the merge base")


async def test_without_any_green_commit_none_is_known(past: Past) -> None:
    red = await past.push("main", {**FILES, "a.py": "broken\n"})
    assert await past.found(red, "main") == ((), ())


async def test_renamed_binary_and_cut_files_have_their_old_content(past: Past) -> None:
    long = "".join(f"line {number}\n" for number in range(20))
    logo = b"\x00\x01"
    await past.push("main", {**FILES, "old.txt": long, "moved.txt": f"moved {long}", "logo.png": logo, "long.txt": "x\n"})
    renamed: standin.Files = {
        "old.txt": None,
        "now.txt": long.replace("line 3\n", ""),
        "moved.txt": None,
        "docs/moved.txt": f"moved {long}",
    }
    red = await past.push("main", {**renamed, "logo.png": b"\x00\x02", "long.txt": "y" * 600_000, "a.py": "broken\n"})
    (good,), _ = await past.found(red, "main")
    files = {file.path: file for file in good.files}
    assert files["old.txt"].renamed_to == "now.txt"
    assert "-line 3" in (files["old.txt"].patch or "")
    assert (files["moved.txt"].patch, files["moved.txt"].renamed_to) == ("", "docs/moved.txt")
    assert files["now.txt"] == ChangedFile("now.txt")
    assert files["docs/moved.txt"] == ChangedFile("docs/moved.txt")
    assert files["logo.png"] == ChangedFile("logo.png", logo)
    assert files["long.txt"] == ChangedFile("long.txt", b"x\n")


@pytest.mark.long
@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({f"{number:03}.txt": f"{number}\n" for number in range(300)}, "300 or more files changed"),
    ],
)
async def test_a_difference_that_is_not_whole_is_not_used(past: Past, files: standin.Files, says: str) -> None:
    await past.push("main", {**FILES, **dict.fromkeys(files, b"\0")})
    red = await past.push("main", {**files, "a.py": "broken\n"})
    good, (note,) = await past.found(red, "main")
    assert good == ()
    assert says in note


async def test_a_link_that_was_removed_is_not_taken_for_the_file_that_it_led_to(past: Past) -> None:
    """GitHub's contents follow it; its patch is like that of a file of one line, which is told as such."""
    git, base = (
        past.github.repository(NAME).git,
        await past.push("main", {"a.py": "fine\n", "one.txt": "one line, without an end"}),
    )
    tree = await git.write_tree(base, {"link.py": ("120000", await git.write_blob(b"a.py"))})
    who = Signature("alice", "alice@example.com", now())
    linked = await git.write_commit(tree, (base,), "Link", who, who)
    await git.set_ref("refs/heads/main", linked, base)
    red = await past.push("topic", {"link.py": None, "one.txt": None}, base="main")
    (good,), _ = await past.found(red, "topic")
    assert good.unread == ("link.py",)
    assert good.files == (ChangedFile("one.txt", b"one line, without an end"),)


async def test_errors_of_github_leave_no_good_commit_and_end_nothing(past: Past) -> None:
    await past.push("main", FILES)
    red = await past.push("main", {"a.py": "broken\n"})
    for status, times, noted in ((404, 1, False), (403, 1, True), (422, 1, True), (500, HASTY.tries, True)):
        past.github.faults.status("GET", f"/repos/{NAME}/compare/*", status, times)
        good, notes = await past.found(red, "main")
        assert good == ()
        assert bool(notes) == noted
    past.github.faults.status("GET", f"/repos/{NAME}/compare/*", 429, times=9)
    with pytest.raises(RateLimited):
        await past.found(red, "main")


async def test_a_patch_that_github_cut_is_replaced_by_the_old_file(past: Past, monkeypatch: pytest.MonkeyPatch) -> None:
    await past.push("main", FILES)
    red = await past.push("main", {"a.py": "broken\nand more\n"})
    compare = Repository.compare

    async def cut(self: Repository, base: str, head: str) -> Comparison:
        found = await compare(self, base, head)
        files = [msgspec.structs.replace(file, patch=(file.patch or "").rpartition("\n")[0]) for file in found.files]
        return msgspec.structs.replace(found, files=tuple(files))

    monkeypatch.setattr(Repository, "compare", cut)
    (good,), _ = await past.found(red, "main")
    assert good.files == (ChangedFile("a.py", b"fine\n"),)


async def test_files_whose_old_content_is_unknown_are_named(past: Past, monkeypatch: pytest.MonkeyPatch) -> None:
    binary = [f"{number:03}.bin" for number in range(21)]
    monkeypatch.setattr(last_good, "_LARGEST", 100)
    await past.push("main", {**FILES, **dict.fromkeys(binary, b"\0"), "000.bin": b"\0" * 101})
    red = await past.push("main", {**{name: f"\0{name}".encode() for name in binary}, "a.py": "broken\n"})
    (good,), notes = await past.found(red, "main")
    assert [file.path for file in good.files] == [*binary[1:20], "a.py"]
    assert good.unread == ("000.bin", "020.bin")
    assert notes == ()


async def test_without_any_old_content_there_is_no_comparison(past: Past, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(last_good, "_LARGEST", 1)
    await past.push("main", {**FILES, "a.bin": b"\0\0"})
    red = await past.push("topic", {"a.bin": b"\0\1"}, base="main")
    good, (note,) = await past.found(red, "topic")
    assert good == ()
    assert "GitHub does not tell the old content of `a.bin`" in note


async def test_a_pull_request_is_compared_with_its_own_base(past: Past) -> None:
    await past.push("main", {**FILES, ".github/workflows/ci.yml": WORKFLOW.replace("[push]", "[pull_request]")})
    base = await past.push("release", {"b.py": "of the release\n"}, base="main")
    red = await past.push("topic", {"a.py": "broken\n"}, base="release")
    pull = await past.github.open_pull(NAME, "topic", "release")
    await past.github.settled()
    assert (await past.repository.pull(pull.number)).base.ref == "release"
    (run,) = failing(await past.repository.runs(red))
    assert [link.base.ref for link in run.pull_requests or ()] == ["release"]
    (good,), _ = await find_last_good(red, "topic", (run,), "release", past.repository)
    assert good.name == f"the merge base with the pull request's base (`{base[:10]}`)"
    assert [file.path for file in good.files] == ["a.py"]
