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
from tests.standins.github.git.plumbing import ENVIRONMENT
from webhooks.intake import RepositoryRef

NAME = "acme/sample"
PLAIN = b"steps:\n  - uses: actions/checkout@v4\n"
WITH_LFS = PLAIN + b"    with:\n      lfs: true\n"
WITH_SUBMODULES = PLAIN + b"    with:\n      submodules: recursive\n"
ONE_LEVEL = PLAIN + b"    with:\n      submodules: true\n"
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


async def read(standin: StandIn, workflow: bytes | None = PLAIN) -> tuple[dict[str, str], CommitFiles]:
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


async def test_attributes_of_a_folder_count_too(standin: StandIn) -> None:
    """https://git-scm.com/docs/gitattributes: the file in the folder, and those above it."""
    files = {
        "calc.py": "A = 1\n",
        "lib/.gitattributes": "spec/* export-ignore\n",
        "lib/spec/test_it.py": "def test_it(): ...\n",
    }
    await standin.create_repository(NAME, files)
    contents, found = await read(standin)
    assert contents == files
    assert found.notes == ()


async def test_without_attributes_githubs_archive_is_passed_on_as_it_is(standin: StandIn) -> None:
    await standin.create_repository(NAME, {"calc.py": "A = 1\n", ".gitattributes": "# export-ignore\n*.py text\n"})
    contents, _ = await read(standin)
    assert sorted(contents) == [".gitattributes", "calc.py"]
    assert len([request for request in standin.requests if "/git/" in request and "/ref" not in request]) == 2, (
        "tree and attributes"
    )


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


@pytest.mark.parametrize("called", [".github/workflows/tests.yml", ".github/actions/check-out"])
async def test_what_a_called_workflow_or_action_checks_out_is_there(standin: StandIn, called: str) -> None:
    """https://docs.github.com/actions/how-tos/reuse-automations/reuse-workflows"""
    await with_submodule(standin, "../library.git")
    path = called if called.endswith(".yml") else f"{called}/action.yml"
    await standin.push(NAME, "main", {path: WITH_SUBMODULES.decode()})
    amend(standin, "vendor/library", "160000", (await standin.branches("acme/library"))["main"])
    contents, _ = await read(standin, f"jobs:\n  tests:\n    uses: './{called}'\n".encode())
    assert contents["vendor/library/lib/core.py"] == "B = 2\n"


async def test_where_no_workflow_is_known_submodules_are_there_and_large_files_are_named(standin: StandIn) -> None:
    await with_submodule(standin, "../library.git")
    contents, found = await read(standin, None)
    assert contents["vendor/library/lib/core.py"] == "B = 2\n"
    assert found.notes == ()
    await standin.push(NAME, "main", {".gitattributes": "*.bin filter=lfs diff=lfs merge=lfs -text\n"})
    _, found = await read(standin, None)
    assert found.notes[0] == "Of Git LFS, only the pointers are here: no workflow says whether CI pulls the files."


@pytest.mark.parametrize(("workflow", "is_deep"), [(WITH_SUBMODULES, True), (ONE_LEVEL, False)], ids=["recursive", "true"])
async def test_submodules_of_submodules_are_there_if_ci_checks_them_out(
    standin: StandIn, workflow: bytes, is_deep: bool
) -> None:
    await standin.create_repository("acme/core", {"core.py": "C = 3\n"}, private=True)
    await with_submodule(standin, "../library.git", private=True)
    inner = (await standin.branches("acme/core"))["main"]
    modules = '[submodule "core"]\n\tpath = deep/core\n\turl = ../core.git\n'
    await standin.push("acme/library", "main", {".gitmodules": modules})
    amend(standin, "deep/core", "160000", inner, "acme/library")
    amend(standin, "vendor/library", "160000", (await standin.branches("acme/library"))["main"])
    contents, found = await read(standin, workflow)
    assert contents["vendor/library/lib/core.py"] == "B = 2\n"
    assert contents.get("vendor/library/deep/core/core.py") == ("C = 3\n" if is_deep else None)
    assert found.notes == ()


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


BIG = b"the weights\n" * 500


async def with_large_files(standin: StandIn, **files: str) -> dict[str, str]:
    """A private repository with a file of Git LFS, and one that archives leave out."""
    await standin.create_repository(NAME, {"README.md": "large\n"}, private=True)
    pointer = standin.large(NAME, BIG)
    attributes = "*.bin filter=lfs diff=lfs merge=lfs -text\n/tests export-ignore\n"
    tree = {".gitattributes": attributes, "calc.py": "A = 1\n", "a.bin": pointer, "tests/same.bin": pointer, **files}
    await standin.push(NAME, "main", tree)
    return tree


async def test_files_of_git_lfs_that_ci_pulls_are_there(standin: StandIn) -> None:
    tree = await with_large_files(standin)
    contents, found = await read(standin, WITH_LFS)
    assert contents == {**tree, "README.md": "large\n", "a.bin": BIG.decode(), "tests/same.bin": BIG.decode()}
    assert found.notes == ()
    (asked,) = standin.api.large_files.bodies
    assert len(asked["objects"]) == 1
    assert standin.downloads.leaks == []


async def test_where_ci_has_only_pointers_nothing_of_git_lfs_is_fetched(standin: StandIn) -> None:
    tree = await with_large_files(standin)
    contents, _ = await read(standin)
    assert contents["a.bin"] == tree["a.bin"]
    assert not [request for request in standin.requests if "/info/lfs" in request]


@pytest.mark.parametrize("run", ["git lfs pull", "git  lfs fetch --all", "cd data && git lfs checkout"])
async def test_a_step_may_pull_them_too(standin: StandIn, run: str) -> None:
    await with_large_files(standin)
    contents, _ = await read(standin, f"steps:\n  - uses: actions/checkout@v4\n  - run: {run}\n".encode())
    assert contents["a.bin"] == BIG.decode()


async def test_a_token_that_expired_is_renewed_for_git_too(standin: StandIn) -> None:
    await with_large_files(standin)
    async with GitHub(standin.app_id, standin.private_key, api_url=standin.url) as github:
        repository = await reader(standin, github)
        await repository.branch_head("main")
        standin.expire_tokens()
        (oid,) = standin.repository(NAME).large
        assert list(await repository.large_files({oid: len(BIG)})) == [oid]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        pytest.param(None, "GitHub does not have its content", id="missing"),
        pytest.param(BIG[:-1] + b"!", "has another content than the commit says", id="another"),
        pytest.param(BIG + b"!", "has another content than the commit says", id="longer"),
        pytest.param(b"", "has another content than the commit says", id="empty"),
    ],
)
async def test_a_file_of_git_lfs_that_is_not_what_was_committed_stays_a_pointer(
    standin: StandIn, content: bytes | None, why: str
) -> None:
    tree = await with_large_files(standin)
    large = standin.repository(NAME).large
    (oid,) = large
    large.clear()
    if content is not None:
        large[oid] = content
    contents, found = await read(standin, WITH_LFS)
    assert (contents["a.bin"], contents["calc.py"]) == (tree["a.bin"], "A = 1\n")
    (note,) = found.notes
    assert note.startswith("Of Git LFS, only the pointer is here for `a.bin`, `tests/same.bin`: ")
    assert why in note


async def test_large_files_have_a_limit_together(standin: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.attempt.archive._LARGE_BYTES", len(BIG) + 10)
    await with_large_files(standin)
    await standin.push(NAME, "main", {"b.bin": standin.large(NAME, b"twenty bytes or more")})
    contents, found = await read(standin, WITH_LFS)
    assert contents["a.bin"] == BIG.decode()
    assert found.notes == ("Of Git LFS, only the pointer is here for `b.bin`: they are too many or too large.",)


async def test_links_to_large_files_obey_the_rules_of_downloads(standin: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standin.downloads, "large", lambda oid, content: ("http://10.11.12.13/latest/meta-data", {}))
    await with_large_files(standin)
    _, found = await read(standin, WITH_LFS)
    (note,) = found.notes
    assert "10.11.12.13" in note
    assert "private network" in note


@pytest.mark.parametrize(
    "pointer", ["oid sha256:{oid}\nsize {size}\n", "ext-0-x sha256:{oid}\noid sha256:{oid}\nsize {size}\n"]
)
async def test_a_text_that_is_no_plain_pointer_stays_as_it_is(standin: StandIn, pointer: str) -> None:
    await with_large_files(standin)
    (oid,) = standin.repository(NAME).large
    text = pointer.format(oid=oid, size=len(BIG))
    text = text if text.startswith("oid") else f"version https://git-lfs.github.com/spec/v1\n{text}"
    await standin.push(NAME, "main", {"a.bin": text})
    contents, _ = await read(standin, WITH_LFS)
    assert contents["a.bin"] == text


async def with_submodule(standin: StandIn, url: str, *, private: bool = False) -> str:
    await standin.create_repository("acme/library", {"lib/core.py": "B = 2\n"}, private=private)
    sha = (await standin.branches("acme/library"))["main"]
    modules = f'[submodule "library"]\n\tpath = vendor/library\n\turl = {url}\n'
    await standin.create_repository(NAME, {"calc.py": "A = 1\n", ".gitmodules": modules}, private=private)
    amend(standin, "vendor/library", "160000", sha)
    return sha


def blob(standin: StandIn, content: bytes) -> str:
    return git(standin, "hash-object", "-w", "--stdin", stdin=content)


def amend(standin: StandIn, path: str, mode: str, sha: str, name: str = NAME) -> None:
    """A commit on `main` with one more entry, of a kind that files pushed by tests do not have."""
    git(standin, "read-tree", "main", name=name)
    git(standin, "update-index", "--add", "--cacheinfo", f"{mode},{sha},{path}", name=name)
    commit = git(standin, "commit-tree", git(standin, "write-tree", name=name), "-p", "main", "-m", "Add it", name=name)
    git(standin, "update-ref", "refs/heads/main", commit, name=name)


def git(standin: StandIn, *argv: str, stdin: bytes = b"", name: str = NAME) -> str:
    folder = standin.repository(name).git.path
    who = {f"GIT_{role}_{field}": "n" for role in ("AUTHOR", "COMMITTER") for field in ("NAME", "EMAIL")}
    done = subprocess.run(["git", *argv], cwd=folder, env=ENVIRONMENT | who, input=stdin, capture_output=True, check=True)
    return done.stdout.decode().strip()
