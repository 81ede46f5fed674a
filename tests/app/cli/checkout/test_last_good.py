"""Which commits of a checkout may be the last good one, and what changed since."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from agent.contract.last_good import ChangedFile, LastGood
from app.cli.checkout.checkout import list_files
from app.cli.checkout.last_good import NoSuchRevision, last_good


def git(folder: Path, *argv: str) -> str:
    named = ("git", "-c", "user.name=n", "-c", "user.email=e@x", "-c", "init.defaultBranch=main")
    return subprocess.run([*named, *argv], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def commit(folder: Path, **files: str) -> str:
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "a commit")
    return git(folder, "rev-parse", "HEAD")[:10]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "checkout"
    folder.mkdir()
    git(folder, "init", "-q")
    return folder


async def found(checkout: Path, revision: str | None = None) -> tuple[LastGood, ...]:
    return await last_good(checkout, await list_files(checkout), revision)


async def test_an_uncommitted_change_is_compared_with_the_last_commit_first(checkout: Path) -> None:
    first = commit(checkout, a="1\n", b="1\n")
    second = commit(checkout, b="2\n")
    (checkout / "a.py").write_text("dirty\n")
    (checkout / "new.py").write_text("new\n")
    one, other = await found(checkout)
    assert one == LastGood(f"the last commit ({second})", (ChangedFile("a.py", b"1\n"), ChangedFile("new.py")))
    assert other.name == f"the parent commit {first}"
    assert [file.path for file in other.files] == ["a.py", "b.py", "new.py"]


async def test_a_clean_checkout_is_compared_with_its_parent(checkout: Path) -> None:
    first = commit(checkout, a="1\n", gone="1\n")
    (checkout / "gone.py").unlink()
    commit(checkout, a="2\n")
    (good,) = await found(checkout)
    assert good == LastGood(f"the parent commit {first}", (ChangedFile("a.py", b"1\n"), ChangedFile("gone.py", b"1\n")))
    assert not good.passed_in_ci


async def test_a_branch_is_also_compared_with_where_it_began(checkout: Path) -> None:
    base = commit(checkout, a="1\n")
    git(checkout, "checkout", "-qb", "topic")
    parent = commit(checkout, a="2\n")
    commit(checkout, a="3\n")
    assert [good.name for good in await found(checkout)] == [
        f"the parent commit {parent}",
        f"the merge base with the default branch ({base})",
    ]


async def test_the_user_names_the_good_commit(checkout: Path) -> None:
    first = commit(checkout, a="1\n")
    commit(checkout, a="2\n")
    commit(checkout, a="3\n")
    (good,) = await found(checkout, "HEAD~2")
    assert good == LastGood(f"commit {first}", (ChangedFile("a.py", b"1\n"),))


@pytest.mark.parametrize("revision", ["nowhere", "--help", "HEAD~9", "HEAD:a.py"])
async def test_a_revision_that_is_no_commit_is_refused_by_name(checkout: Path, revision: str) -> None:
    commit(checkout, a="1\n")
    with pytest.raises(NoSuchRevision, match="is not a commit of this checkout"):
        await found(checkout, revision)


async def test_without_history_there_is_none(checkout: Path, tmp_path: Path) -> None:
    assert await found(checkout) == ()
    commit(checkout, a="1\n")
    assert await found(checkout) == ()
    plain = tmp_path / "plain"
    plain.mkdir()
    assert await found(plain) == ()
    with pytest.raises(NoSuchRevision, match="not a git checkout"):
        await found(plain, "HEAD")


async def test_a_subfolder_is_compared_with_its_own_files(checkout: Path) -> None:
    (checkout / "inner").mkdir()
    commit(checkout, a="1\n", **{"inner/b": "1\n"})
    commit(checkout, a="2\n", **{"inner/b": "2\n"})
    (good,) = await found(checkout / "inner")
    assert good.files == (ChangedFile("b.py", b"1\n"),)


async def test_no_program_that_the_checkout_names_is_run(checkout: Path, tmp_path: Path) -> None:
    commit(checkout, a="1\n")
    commit(checkout, a="2\n")
    witness = tmp_path / "ran"
    (checkout / ".gitattributes").write_text("*.py filter=own diff=own\n")
    for name in (
        "filter.own.clean",
        "filter.own.smudge",
        "diff.own.textconv",
        "diff.own.command",
        "core.fsmonitor",
        "diff.external",
    ):
        git(checkout, "config", name, f"touch {witness}")
    (checkout / "a.py").write_text("dirty\n")
    assert len(await found(checkout)) == 2
    assert not witness.exists()
