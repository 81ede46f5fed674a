"""Runs of a workflow, comparisons and tags through the gateway; every call is judged by GitHub's own description."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from agent.edits.patches import reverse_patch
from app.github.client import GitHub
from app.github.errors import NotFound, TooLarge
from app.github.repository import Repository
from app.github.types import READING
from tests.app.requests import failing
from tests.standins.github import GitHub as StandIn
from webhooks.intake import RepositoryRef

NAME = "acme/sample"
WORKFLOW = "name: CI\non: [push, pull_request]\njobs:\n  tests:\n    runs-on: ubuntu-latest\n    steps:\n      - run: exit {}\n"
FILE = ".github/workflows/ci.yml"
TEXT = "".join(f"line {number}\n" for number in range(30))


@pytest.fixture
async def standin() -> AsyncIterator[StandIn]:
    async with StandIn() as standin:
        await standin.create_repository(NAME, {"a.py": "x = 1\n", "long.txt": TEXT, "old.txt": TEXT, "logo.png": b"\x00\x01"})
        yield standin


@pytest.fixture
async def reader(standin: StandIn) -> AsyncIterator[Repository]:
    async with GitHub(standin.app_id, standin.private_key, api_url=standin.url) as github:
        ref = RepositoryRef(standin.repository(NAME).id, NAME)
        yield github.repository(standin.installation("acme").id, ref, READING)


async def test_passed_runs_are_those_of_the_workflow_on_the_branch_of_this_repository(
    standin: StandIn, reader: Repository
) -> None:
    other = {".github/workflows/other.yml": WORKFLOW.format(0).replace("CI", "Other")}
    first = await standin.push(NAME, "main", {FILE: WORKFLOW.format(0), **other})
    await standin.settled()
    second = await standin.push(NAME, "main", {"a.py": "x = 2\n"})
    await standin.push(NAME, "topic", {"a.py": "x = 3\n"})
    fork = await standin.fork(NAME, "mallory")
    await standin.push(fork.full_name, "main", {"a.py": "x = 4\n"})
    await standin.open_pull(NAME, "mallory:main", base="topic")
    await standin.settled()
    red = await standin.push(NAME, "main", {FILE: WORKFLOW.format(1)})
    await standin.settled()
    [broken] = [run for run in failing(await reader.runs(red)) if run.name == "CI"]
    passed = await reader.passed_runs(broken, "main")
    assert [run.head_sha for run in passed] == [second, first]
    assert all(run.number < broken.number and run.name == "CI" for run in passed)


async def test_a_comparison_starts_at_the_merge_base_and_shows_every_kind_of_change(
    standin: StandIn, reader: Repository
) -> None:
    base = (await standin.branches(NAME))["main"]
    new = TEXT.replace("line 7\n", "seven\n").removesuffix("\n")
    await standin.push(NAME, "topic", {"long.txt": new, "a.py": None, "new ü.py": "y\n"}, base="main")
    head = await standin.push(NAME, "topic", {"old.txt": None, "now.txt": TEXT.replace("9\n", "9!\n"), "logo.png": b"\x00\x02"})
    await standin.push(NAME, "main", {"elsewhere.py": "z\n"})

    found = await reader.compare("main", head)

    assert found.merge_base.sha == base
    assert found.is_whole
    files = {file.path: file for file in found.files}
    assert {path: file.status for path, file in files.items()} == {
        "a.py": "removed", "logo.png": "modified", "long.txt": "modified", "new ü.py": "added", "now.txt": "renamed",
    }  # fmt: skip
    assert reverse_patch(new, files["long.txt"].patch or "") == TEXT
    assert reverse_patch("", files["a.py"].patch or "") == "x = 1\n"
    assert (files["now.txt"].old_path, files["now.txt"].changes) == ("old.txt", 6)
    assert (files["logo.png"].patch, files["logo.png"].changes) == (None, 0)


@pytest.mark.long
async def test_very_large_differences_are_cut_as_github_cuts_them(standin: StandIn, reader: Repository) -> None:
    base = (await standin.branches(NAME))["main"]
    many = {f"many/{number:03}.txt": f"{number}\n" for number in range(305)}
    cut = await reader.compare(base, await standin.push(NAME, "many", many))
    assert (len(cut.files), cut.is_whole) == (300, False)
    large = await standin.push(NAME, "large", {"long.txt": "x" * 600_000 + "\n"})
    [file] = (await reader.compare(base, large)).files
    assert (file.patch, file.changes) == (None, 31)
    with pytest.raises(TooLarge):
        await reader.file("long.txt", large, limit=500_000)
    assert await reader.file("long.txt", large) == b"x" * 600_000 + b"\n"


async def test_what_cannot_be_compared_is_not_found(standin: StandIn, reader: Repository) -> None:
    head = (await standin.branches(NAME))["main"]
    with pytest.raises(NotFound):
        await reader.compare("no-such-branch", head)
    git = standin.repository(NAME).git
    commit = await git.commit(head)
    orphan = await git.write_commit(commit.tree, (), "No parent", commit.author, commit.committer)
    await git.create_ref("refs/heads/orphan", orphan)
    with pytest.raises(NotFound, match="No common ancestor"):
        await reader.compare("orphan", head)


async def test_tags_are_listed_by_name(standin: StandIn, reader: Repository) -> None:
    assert await reader.tags() == ()
    for name in ("v1.0", "v1.2", "nightly"):
        await standin.tag(NAME, name)
    assert await reader.tags() == ("v1.2", "v1.0", "nightly")
