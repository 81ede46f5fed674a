"""Which commits of a checkout may be the last good one, and what changed since."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from agent.contract.last_good import ChangedFile, LastGood
from app.cli.checkout.checkout import commit as commit_of
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
    return (await last_good(checkout, await list_files(checkout), revision)).good


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


async def test_a_named_commit_without_a_difference_is_refused(checkout: Path) -> None:
    first = commit(checkout, a="1\n")
    with pytest.raises(NoSuchRevision, match=f"no file differs from commit {first}, .* such as HEAD~1"):
        await found(checkout, "HEAD")


async def test_a_named_commit_of_another_line_of_history_is_noted(checkout: Path) -> None:
    commit(checkout, a="1\n")
    git(checkout, "branch", "first")
    git(checkout, "checkout", "-q", "-b", "other")
    other = commit(checkout, a="2\n")
    git(checkout, "checkout", "-q", "first")
    commit(checkout, a="3\n")
    known = await last_good(checkout, await list_files(checkout), "other")
    assert known.good == (LastGood(f"commit {other}", (ChangedFile("a.py", b"2\n"),)),)
    assert known.notes == (f"commit {other} is no ancestor of HEAD, so the comparison shows more than what changed since",)
    assert (await last_good(checkout, await list_files(checkout), "first~1")).notes == ()


async def test_a_link_whose_target_ends_in_a_slash_has_not_changed(checkout: Path) -> None:
    (checkout / "folder").mkdir()
    (checkout / "link").symlink_to("folder")
    os.symlink("folder/", checkout / "slashed")
    commit(checkout, a="1\n")
    commit(checkout, a="2\n")
    (good,) = await found(checkout)
    assert ([file.path for file in good.files], good.unread) == (["a.py"], ())
    assert good.messages.strip()


async def test_files_that_git_converts_do_not_count_as_changed(checkout: Path) -> None:
    (checkout / ".gitattributes").write_text("*.bin filter=lfs\n*.bat eol=crlf\n")
    (checkout / "data.bin").write_text("pointer\n")
    commit(checkout, a="1\n")
    (checkout / "data.bin").write_text("the content\n")
    (checkout / "a.py").write_text("2\n")
    (good,) = await found(checkout)
    assert [file.path for file in good.files] == ["a.py"]


async def test_a_changed_file_that_git_converts_is_named(checkout: Path) -> None:
    (checkout / ".gitattributes").write_text("*.bin filter=lfs\n")
    (checkout / "data.bin").write_text("pointer\n")
    commit(checkout, a="1\n")
    git(checkout, "update-index", "--cacheinfo", f"100644,{git(checkout, 'rev-parse', 'HEAD:a.py')},data.bin")
    git(checkout, "commit", "-qm", "newer data")
    (checkout / "a.py").write_text("2\n")
    one, other = await found(checkout)
    assert (one.unread, other.unread) == ((), ("data.bin",))


async def test_line_endings_are_those_of_the_checkout(checkout: Path) -> None:
    (checkout / ".gitattributes").write_text("* text=auto eol=lf\n*.bat eol=crlf\n")
    (checkout / "run.bat").write_bytes(b"one\r\n")
    first = commit(checkout, a="1\n")
    (checkout / "run.bat").write_bytes(b"two\r\n")
    (checkout / "b.py").write_bytes(b"1\r\n")  # stored with LF
    commit(checkout, a="2\n")
    assert await found(checkout) == (
        LastGood(
            f"the parent commit {first}",
            (ChangedFile("a.py", b"1\n"), ChangedFile("b.py"), ChangedFile("run.bat", b"one\r\n")),
        ),
    )


async def test_a_change_of_line_endings_is_a_change(checkout: Path) -> None:
    commit(checkout, a="1\n")
    (checkout / "a.py").write_bytes(b"1\r\n")
    git(checkout, "commit", "-qam", "the other line endings")
    (good,) = await found(checkout)
    assert good.files == (ChangedFile("a.py", b"1\n"),)


async def test_modes_and_links_are_compared_too(checkout: Path) -> None:
    script, gone, became = checkout / "run.sh", checkout / "gone.sh", checkout / "became"
    for file in (script, gone, became):
        file.write_text("true\n")
        file.chmod(0o755)
    (checkout / "old").symlink_to("run.sh")
    (checkout / "moved").symlink_to("run.sh")
    (checkout / "same").symlink_to("run.sh")
    commit(checkout, a="1\n")
    script.chmod(0o644)
    gone.unlink()
    became.unlink()
    became.symlink_to("run.sh")
    for link in ("old", "moved"):
        (checkout / link).unlink()
    (checkout / "moved").symlink_to("a.py")
    (checkout / "new").symlink_to("a.py")
    (good,) = await found(checkout)
    assert good.files == (
        ChangedFile("became", b"true\n", executable=True),
        ChangedFile("gone.sh", b"true\n", executable=True),
        ChangedFile("new"),
        ChangedFile("run.sh", b"true\n", executable=True),
    )
    assert good.unread == ("moved", "old")
    git(checkout, "config", "core.fileMode", "false")
    assert "run.sh" not in [file.path for file in (await found(checkout))[0].files]


async def test_a_submodule_at_another_commit_is_named(checkout: Path, tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    git(inner, "init", "-q")
    commit(inner, i="1\n")
    git(checkout, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner), "inner")
    commit(checkout, a="1\n")
    commit(checkout / "inner", i="2\n")
    (checkout / "b.py").write_text("1\n")
    (good,) = await found(checkout)
    assert (good.files, good.unread) == ((ChangedFile("b.py"),), ())
    commit(checkout, a="2\n")
    (good,) = await found(checkout)
    assert good.unread == ("inner",)


async def test_names_and_places_of_all_kinds(checkout: Path) -> None:
    odd = ["a b", "ü", 'quo"te', "tab\there", "new\nline", "Case", "-dash", "back\\slash"]
    commit(checkout, **dict.fromkeys(odd, "1\n"), place="1\n")
    (checkout / "place.py").unlink()
    (checkout / "place.py").mkdir()
    git(checkout, "mv", "Case.py", "case.py")
    commit(checkout, **{name: "2\n" for name in odd if name != "Case"}, **{"place.py/inside": "1\n"})
    (good,) = await found(checkout)
    changed = {file.path: file.before for file in good.files}
    assert changed == {
        **{f"{name}.py": b"1\n" for name in odd},
        "case.py": None,
        "place.py": b"1\n",
        "place.py/inside.py": None,
    }


async def test_what_is_staged_untracked_deleted_or_edited_counts_as_changed(checkout: Path) -> None:
    commit(checkout, edited="1\n", staged="1\n", deleted="1\n", removed="1\n", kept="1\n")
    git(checkout, "checkout", "-q", "--detach")
    (checkout / "edited.py").write_text("2\n")
    (checkout / "staged.py").write_text("2\n")
    git(checkout, "add", "staged.py")
    (checkout / "deleted.py").unlink()
    git(checkout, "rm", "-q", "removed.py")
    (checkout / "untracked.py").write_text("1\n")
    (good,) = await found(checkout)
    assert {file.path: file.before for file in good.files} == {
        **dict.fromkeys(("edited.py", "staged.py", "deleted.py", "removed.py"), b"1\n"),
        "untracked.py": None,
    }


async def test_a_merge_is_compared_with_its_first_parent(checkout: Path) -> None:
    commit(checkout, a="1\n")
    git(checkout, "checkout", "-qb", "topic")
    commit(checkout, b="1\n")
    git(checkout, "checkout", "-q", "main")
    ours = commit(checkout, c="1\n")
    git(checkout, "merge", "-q", "--no-ff", "topic", "-m", "a merge")
    (good,) = await found(checkout)
    assert good == LastGood(f"the parent commit {ours}", (ChangedFile("b.py"),))


async def test_a_shallow_clone_and_too_large_a_change_have_no_good_commit(checkout: Path, tmp_path: Path) -> None:
    commit(checkout, a="1\n")
    commit(checkout, **{f"f{number}": f"{number}\n" for number in range(1_001)})
    assert await found(checkout) == ()
    notes = (await last_good(checkout, await list_files(checkout), "HEAD~1")).notes
    assert "1,001 files differ, more than 1,000" in notes[0]
    shallow = tmp_path / "shallow"
    git(tmp_path, "clone", "-q", "--depth=1", checkout.as_uri(), str(shallow))
    known = await last_good(shallow, await list_files(shallow), None)
    assert known.good == ()
    assert "`git fetch --unshallow`" in known.notes[0]
    with pytest.raises(NoSuchRevision):
        await found(shallow, "HEAD~1")


async def test_older_commits_are_found_along_first_parents(checkout: Path) -> None:
    first = commit(checkout, a="1\n")
    git(checkout, "checkout", "-qb", "topic")
    commit(checkout, b="1\n")
    git(checkout, "checkout", "-q", "main")
    second = commit(checkout, a="2\n")
    git(checkout, "merge", "-q", "--no-ff", "topic", "-m", "a merge")
    commit(checkout, c="1\n")
    history = (await last_good(checkout, await list_files(checkout), None)).history
    assert history is not None
    assert await history.before(2) == LastGood(
        f"commit {second} (2 commits ago)", (ChangedFile("b.py"), ChangedFile("c.py")), subject="a commit"
    )
    oldest = await history.before(3)
    assert oldest is not None
    assert (oldest.name, oldest.files[0]) == (f"commit {first} (3 commits ago)", ChangedFile("a.py", b"1\n"))
    assert await history.before(4) is None


async def test_no_program_that_the_checkout_names_is_run(checkout: Path, tmp_path: Path) -> None:
    commit(checkout, a="1\n", gone="2\n")
    commit(checkout, a="2\n")
    witness, evil = tmp_path / "ran", tmp_path / "evil.sh"
    evil.write_text(f"#!/bin/sh\ntouch {witness}\n")
    evil.chmod(0o755)
    (checkout / ".gitattributes").write_text("*.cfg filter=own diff=own\n")
    (checkout / "own.cfg").write_text("x\n")
    for name in ("filter.own.clean", "diff.own.textconv", "core.fsmonitor", "gpg.program", "core.sshCommand", "core.pager"):
        git(checkout, "config", name, str(evil))
    signed = git(checkout, "cat-file", "commit", "HEAD").replace("\n\n", "\ngpgsig -----BEGIN PGP SIGNATURE-----\n x\n\n", 1)
    (tmp_path / "signed").write_text(f"{signed}\n")
    made = git(checkout, "hash-object", "-t", "commit", "-w", str(tmp_path / "signed"))
    git(checkout, "update-ref", "HEAD", made)
    git(checkout, "config", "log.showSignature", "true")
    # A partial clone whose remote would be asked for the file that is not here.
    lost = git(checkout, "rev-parse", "HEAD:gone.py")
    (checkout / ".git" / "objects" / lost[:2] / lost[2:]).unlink()
    for name, value in {
        "core.repositoryformatversion": "1", "extensions.partialClone": "origin", "remote.origin.promisor": "true",
        "remote.origin.url": f"ext::{evil}", "remote.origin.uploadpack": str(evil), "protocol.ext.allow": "always",
        "protocol.file.allow": "always",
    }.items():  # fmt: skip
        git(checkout, "config", name, value)
    (checkout / "a.py").write_text("dirty\n")
    (checkout / "gone.py").write_text("changed\n")
    assert await commit_of(checkout) is not None
    notes = (await last_good(checkout, await list_files(checkout), "HEAD")).notes
    assert "as in a partial clone" in notes[0]
    assert not witness.exists()
