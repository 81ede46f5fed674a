"""What GitHub's archive leaves out is there nevertheless: what `export-ignore` names, and submodules that CI checks out."""

from __future__ import annotations

import gzip
import io
import subprocess
import tarfile
from collections.abc import AsyncIterator

import pytest

from app.attempt.archive import CommitFiles, files_of
from app.github.client import GitHub
from app.github.repository import Repository
from app.github.types import READING
from tests.standins.github import GitHub as StandIn
from tests.standins.github.git import ENVIRONMENT
from webhooks.intake import RepositoryRef

NAME = "acme/sample"
PLAIN = b"steps:\n  - uses: actions/checkout@v4\n"
WITH_SUBMODULES = PLAIN + b"    with:\n      submodules: recursive\n"
TREE: dict[str, str | bytes | None] = {
    "calc.py": "A = 1\n",
    "tests/test_calc.py": "def test_it(): ...\n",
    ".gitattributes": "# tests export-ignore?\n/tests export-ignore\n.gitattributes export-ignore\n*.png binary\n",
}


@pytest.fixture
async def standin() -> AsyncIterator[StandIn]:
    async with StandIn() as standin:
        yield standin


async def reader(standin: StandIn, github: GitHub) -> Repository:
    made = standin.repository(NAME)
    ref = RepositoryRef(made.id, NAME, private=made.private)
    return github.repository(standin.installation("acme").id, ref, READING)


async def read(standin: StandIn, workflow: bytes = PLAIN) -> tuple[dict[str, str], CommitFiles]:
    """The files' contents by their paths, "-> target" for a link, and what was found."""
    async with GitHub(standin.app_id, standin.private_key, api_url=standin.url) as github:
        repository = await reader(standin, github)
        sha = await repository.branch_head("main")
        assert sha is not None
        found = await files_of(sha, [workflow], repository)
        packed = b"".join([chunk async for chunk in found.archive])
    contents = {}
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(packed)), mode="r:") as tar:
        for member in tar:
            if member.isreg():
                source = tar.extractfile(member)
                assert source is not None
                contents[member.name.partition("/")[2]] = source.read().decode()
            elif member.issym():
                contents[member.name.partition("/")[2]] = f"-> {member.linkname}"
    return contents, found


async def test_what_archives_leave_out_is_fetched(standin: StandIn) -> None:
    await standin.create_repository(NAME, TREE)
    contents, found = await read(standin)
    assert contents == TREE
    assert found.notes == ()


async def test_without_attributes_githubs_archive_is_passed_on_as_it_is(standin: StandIn) -> None:
    await standin.create_repository(NAME, {"calc.py": "A = 1\n", ".gitattributes": "# export-ignore\n*.py text\n"})
    contents, _ = await read(standin)
    assert sorted(contents) == [".gitattributes", "calc.py"]
    assert not [request for request in standin.requests if "/git/trees" in request]


async def test_links_modes_and_large_files(standin: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.attempt.archive._FILE", 100)
    await standin.create_repository(NAME, TREE | {"tests/large.txt": "x" * 101})
    amend(standin, "tests/link", "120000", blob(standin, b"test_calc.py"))
    contents, found = await read(standin)
    assert contents["tests/link"] == "-> test_calc.py"
    assert "tests/large.txt" not in contents
    assert found.notes == ("GitHub's archive leaves out `tests/large.txt`, as `.gitattributes` asks.",)


@pytest.mark.parametrize("url", ["../library.git", "{web}/acme/library", "{web}/acme/library.git/"])
async def test_a_submodule_that_ci_checks_out_is_there(standin: StandIn, url: str) -> None:
    sha = await with_submodule(standin, url.format(web=standin.url))
    contents, found = await read(standin, WITH_SUBMODULES)
    assert contents["vendor/library/lib/core.py"] == "B = 2\n", sha
    assert found.notes == ()
    contents, _ = await read(standin, PLAIN)
    assert not [path for path in contents if path.startswith("vendor/")], "CI had none either"


async def test_only_a_private_repository_has_private_submodules(standin: StandIn) -> None:
    await with_submodule(standin, "../library.git", private=True)
    contents, found = await read(standin, WITH_SUBMODULES)
    assert contents["vendor/library/lib/core.py"] == "B = 2\n"
    assert found.notes == ()
    standin.repository(NAME).private = False  # its writers could publish what is in the other one
    contents, found = await read(standin, WITH_SUBMODULES)
    assert not [path for path in contents if path.startswith("vendor/")]
    assert found.notes == ("The submodule `vendor/library` is not here: this installation cannot read it.",)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("https://gitlab.example.com/acme/library.git", "it is not on this GitHub"),
        ("../../other/hidden.git", "this installation cannot read it"),
        ("../../../../etc/passwd", "it is not on this GitHub"),
    ],
)
async def test_a_submodule_that_cannot_be_read_is_named(standin: StandIn, url: str, why: str) -> None:
    await standin.create_repository("other/hidden", {"a.txt": "a"}, private=True)
    await with_submodule(standin, url)
    contents, found = await read(standin, WITH_SUBMODULES)
    assert "calc.py" in contents
    assert found.notes == (f"The submodule `vendor/library` is not here: {why}.",)


async def with_submodule(standin: StandIn, url: str, *, private: bool = False) -> str:
    await standin.create_repository("acme/library", {"lib/core.py": "B = 2\n"}, private=private)
    sha = (await standin.branches("acme/library"))["main"]
    modules = f'[submodule "library"]\n\tpath = vendor/library\n\turl = {url}\n'
    await standin.create_repository(NAME, {"calc.py": "A = 1\n", ".gitmodules": modules}, private=private)
    amend(standin, "vendor/library", "160000", sha)
    return sha


def blob(standin: StandIn, content: bytes) -> str:
    return git(standin, "hash-object", "-w", "--stdin", stdin=content)


def amend(standin: StandIn, path: str, mode: str, sha: str) -> None:
    """A commit on `main` with one more entry, of a kind that files pushed by tests do not have."""
    git(standin, "read-tree", "main")
    git(standin, "update-index", "--add", "--cacheinfo", f"{mode},{sha},{path}")
    commit = git(standin, "commit-tree", git(standin, "write-tree"), "-p", "main", "-m", "Add it")
    git(standin, "update-ref", "refs/heads/main", commit)


def git(standin: StandIn, *argv: str, stdin: bytes = b"") -> str:
    folder = standin.repository(NAME).git.path
    who = {f"GIT_{role}_{field}": "n" for role in ("AUTHOR", "COMMITTER") for field in ("NAME", "EMAIL")}
    done = subprocess.run(["git", *argv], cwd=folder, env=ENVIRONMENT | who, input=stdin, capture_output=True, check=True)
    return done.stdout.decode().strip()
