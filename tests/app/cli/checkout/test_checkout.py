"""A checkout as the engine gets it, and the repair as the checkout gets it."""

from __future__ import annotations

import os
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

import pytest

from agent.contract.proposal import FileChange
from app.cli.checkout.checkout import (
    CheckoutChanged,
    CheckoutUnreadable,
    CheckoutUnwritable,
    NotACheckout,
    apply,
    commit,
    list_files,
    packed,
    root_of,
)
from sandbox.host.archive import unpack
from sandbox.host.tree import FOLDER, Tree


def git(folder: Path, *argv: str) -> None:
    subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=e@x", *argv], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "checkout"
    folder.mkdir()
    return folder


@pytest.fixture
def repository(checkout: Path) -> Path:
    git(checkout, "init", "-q")
    return checkout


def write(folder: Path, *paths: str, content: bytes = b"x\n") -> None:
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)


async def arrived(checkout: Path) -> dict[str, bytes | str]:
    """What a sandbox has of the checkout: content of files, target of links."""
    target = checkout.parent / "arrived"
    target.mkdir()
    descriptor = os.open(target, FOLDER)
    try:
        await unpack(packed(checkout), Tree(descriptor))
    finally:
        os.close(descriptor)
    return {
        path.relative_to(target).as_posix(): str(path.readlink()) if path.is_symlink() else path.read_bytes()
        for path in target.rglob("*")
        if path.is_symlink() or path.is_file()
    }


async def test_it_is_what_git_sees(repository: Path) -> None:
    write(repository, "tracked.py", "gone.py", "folder/deep.py")
    (repository / ".gitignore").write_text(".env\n*.log\n/data/\n")
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "first")
    (repository / "gone.py").unlink()
    write(repository, "untracked.py", ".env", "a.log", "data/big.bin")
    assert set(await arrived(repository)) == {".gitignore", "tracked.py", "folder/deep.py", "untracked.py"}


async def test_a_large_untracked_file_is_left_out_and_named(repository: Path) -> None:
    write(repository, "a.py", "small.bin")
    with (repository / "core").open("wb") as file:
        file.truncate(700 * 2**20)
    assert (await list_files(repository)).notes == ("the untracked file core is left out: it has 700 MiB",)
    assert set(await arrived(repository)) == {"a.py", "small.bin"}


async def test_submodules_are_taken_where_they_are(repository: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "-q")
    write(other, "data.toml")
    git(other, "add", ".")
    git(other, "commit", "-qm", "first")
    git(repository, "-c", "protocol.file.allow=always", "submodule", "add", str(other), "vendor/other")
    assert set(await arrived(repository)) == {".gitmodules", "vendor/other/data.toml"}


async def test_the_newest_tag_of_the_commit_is_known(repository: Path) -> None:
    write(repository, "a.py")
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "first")
    assert (await commit(repository)).tag == ""
    git(repository, "tag", "v1.0")
    git(repository, "commit", "-qm", "second", "--allow-empty")
    assert (await commit(repository)).tag == "v1.0"


async def test_a_folder_inside_a_repository_is_named(repository: Path) -> None:
    write(repository, "part/b.py")
    (note,) = (await list_files(repository / "part")).notes
    assert (
        note == f"only this folder is used, without the workflows and settings of its checkout; pass {repository} to use them"
    )


async def test_a_folder_inside_a_repository_is_taken_alone(repository: Path) -> None:
    write(repository, "other/a.py", "part/b.py", "part/.env")
    (repository / ".gitignore").write_text(".env\n")
    assert set(await arrived(repository / "part")) == {"b.py"}


async def test_without_git_what_tools_make_is_left_out(checkout: Path) -> None:
    write(checkout, "a.py", "src/b.py", ".venv/c.py", "env/pyvenv.cfg", "src/__pycache__/b.pyc", "node_modules/d.js", ".env")
    assert set(await arrived(checkout)) == {"a.py", "src/b.py"}


async def test_gits_variables_do_not_lead_elsewhere(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(repository, "here.py")
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "-q")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    assert set(await arrived(repository)) == {"here.py"}


async def test_looking_at_a_checkout_runs_nothing_of_it(repository: Path, tmp_path: Path) -> None:
    hook = tmp_path / "hook"
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    hook.chmod(0o755)
    write(repository, "a.py")
    git(repository, "config", "core.fsmonitor", str(hook))
    assert set(await arrived(repository)) == {"a.py"}
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("is_git", [True, False])
async def test_links_stay_links_and_those_that_lead_outside_stay_out(checkout: Path, is_git: bool) -> None:
    if is_git:
        git(checkout, "init", "-q")
    write(checkout, "package/a.py")
    (checkout / "inner").symlink_to("package")
    (checkout / "outer").symlink_to("/etc")
    (checkout / "package/up").symlink_to("../../..")
    os.mkfifo(checkout / "pipe")
    assert await arrived(checkout) == {"package/a.py": b"x\n", "inner": "package"}


async def test_a_second_name_of_a_file_is_a_file(checkout: Path) -> None:
    write(checkout, "a.bin", content=b"\x00\xff")
    os.link(checkout / "a.bin", checkout / "b.bin")
    assert await arrived(checkout) == {"a.bin": b"\x00\xff", "b.bin": b"\x00\xff"}


async def test_names_that_are_no_text_travel(repository: Path) -> None:
    (repository / os.fsdecode(b"caf\xe9.txt")).write_text("x")
    assert [os.fsencode(name) for name in await arrived(repository)] == [b"caf\xe9.txt"]


async def test_an_empty_folder_is_an_empty_archive(checkout: Path) -> None:
    whole = b"".join([chunk async for chunk in packed(checkout)])
    with tarfile.open(fileobj=BytesIO(whole)) as tar:
        assert tar.getnames() == ["checkout"]


async def test_a_file_that_cannot_be_read_is_named() -> None:
    with tempfile.TemporaryDirectory() as folder:
        checkout = Path(folder)
        checkout.chmod(0o755)
        write(checkout, "a.py", "secret.py")
        (checkout / "secret.py").chmod(0)
        with nobody_special(), pytest.raises(CheckoutUnreadable, match=r"secret\.py cannot be read: Permission denied"):
            [chunk async for chunk in packed(checkout)]


@contextmanager
def nobody_special() -> Iterator[None]:
    """Without root's power to read everything."""
    before = os.geteuid()
    if before != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(before)


async def test_a_change_is_written_with_its_bytes_and_mode(checkout: Path) -> None:
    write(checkout, "run.py", content=b"a = 1\r\nb = '\xc3\xa9'\r\n")
    (checkout / "run.py").chmod(0o750)
    write(checkout, "old.py")
    await apply(
        checkout,
        (
            FileChange("run.py", "a = 1\r\nb = 'é'\r\n", "a = 2\r\nb = 'é'\r\n"),
            FileChange("new/made.py", None, "c = 3\n"),
            FileChange("old.py", "x\n", None),
        ),
    )
    assert (checkout / "run.py").read_bytes() == b"a = 2\r\nb = '\xc3\xa9'\r\n"
    assert (checkout / "run.py").stat().st_mode & 0o777 == 0o750
    assert sorted(path.relative_to(checkout).as_posix() for path in checkout.rglob("*.py")) == ["new/made.py", "run.py"]


@pytest.mark.parametrize(
    "second",
    [FileChange("b.py", "what it was\n", "y\n"), FileChange("b.py", None, "y\n"), FileChange("gone.py", "x\n", None)],
    ids=["changed", "appeared", "removed"],
)
async def test_nothing_is_written_when_one_file_changed_meanwhile(checkout: Path, second: FileChange) -> None:
    write(checkout, "a.py", "b.py")
    with pytest.raises(CheckoutChanged) as caught:
        await apply(checkout, (FileChange("a.py", "x\n", "y\n"), second))
    assert caught.value.path == second.path
    assert second.path in str(caught.value)
    assert (checkout / "a.py").read_text() == (checkout / "b.py").read_text() == "x\n"


@pytest.mark.parametrize(("first", "second"), [("y\n", "y\n"), (None, "y\n"), ("y\n", None)])
async def test_nothing_is_written_when_one_file_cannot_be(first: str | None, second: str | None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        checkout, closed = Path(folder), Path(folder, "closed")
        write(checkout, "a.py", "closed/b.py")
        closed.chmod(0o555)
        if os.geteuid() == 0:
            os.chown(checkout, 65534, 65534)
        changes = (FileChange("a.py", "x\n", first), FileChange("closed/b.py", "x\n", second))
        with (
            nobody_special(),
            pytest.raises(CheckoutUnwritable, match=r"closed/b\.py cannot be written: Permission denied; nothing"),
        ):
            await apply(checkout, changes)
        names = sorted(path.relative_to(checkout).as_posix() for path in checkout.rglob("*"))
        assert names == ["a.py", "closed", "closed/b.py"]
        assert (checkout / "a.py").read_text() == (closed / "b.py").read_text() == "x\n"


@pytest.mark.parametrize("after", ["y\n", None])
async def test_what_lies_beside_a_file_is_not_touched(checkout: Path, tmp_path: Path, after: str | None) -> None:
    """A repository may hold links of any name; none of them leads a change out of the checkout."""
    write(checkout, "a.py", ".b.py.selfheal", "b.py")
    precious = tmp_path / "precious"
    precious.write_text("mine")
    (checkout / ".a.py.selfheal").symlink_to(precious)
    await apply(checkout, (FileChange("a.py", "x\n", after), FileChange("b.py", "x\n", after)))
    assert precious.read_text() == "mine"
    assert (checkout / ".a.py.selfheal").is_symlink()
    assert (checkout / ".b.py.selfheal").read_text() == "x\n"


@pytest.mark.parametrize("path", ["outer/made.py", "link.py", "../made.py"])
async def test_nothing_is_written_outside_of_the_checkout(checkout: Path, tmp_path: Path, path: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (checkout / "outer").symlink_to(elsewhere)
    (checkout / "link.py").symlink_to(elsewhere / "made.py")
    with pytest.raises(CheckoutChanged):
        await apply(checkout, (FileChange(path, None, "x = 1\n"),))
    assert not list(tmp_path.rglob("made.py"))


async def test_a_checkout_of_two_gigabytes_is_refused_before_it_is_packed(checkout: Path) -> None:
    write(checkout, "a.bin")
    with (checkout / "b.bin").open("wb") as file:
        file.truncate(2048 << 20)
    with pytest.raises(CheckoutUnreadable, match=r"b\.bin cannot be read: the checkout is larger than 2048 MiB") as refused:
        [chunk async for chunk in packed(checkout)]
    assert refused.value.path == "b.bin"


async def test_a_folder_that_is_no_project_stands_for_its_checkout(repository: Path) -> None:
    write(repository, "tests/test_a.py", "part/pyproject.toml")
    assert await root_of(repository / "tests", "fix") == (repository / "tests", ""), "git knows nothing in it: a home, perhaps"
    git(repository, "add", ".")
    note = f"{repository / 'tests'} is a folder of the checkout {repository} and no project of its own"
    root, said = await root_of(repository / "tests", "fix")
    assert root == repository
    assert said.startswith(note)
    assert await root_of(repository / "part", "fix") == (repository / "part", "")
    assert await root_of(repository, "fix") == (repository, "")


async def test_what_has_no_files_is_refused_with_what_to_type_instead(repository: Path, tmp_path: Path) -> None:
    write(repository, "a.py")
    git(tmp_path, "clone", "-q", "--bare", str(repository), "bare.git")
    (tmp_path / "empty").mkdir()
    for path, told in {
        tmp_path / "nowhere": "does not exist",
        tmp_path / "empty": "is empty",
        repository / "a.py": f"is a file; pass the folder of its checkout, such as `selfheal fix {repository}`",
        repository / ".git": f"belongs to git; pass the folder of the checkout, such as `selfheal fix {repository}`",
        tmp_path / "bare.git": f"`git clone {tmp_path / 'bare.git'} bare-checkout && selfheal fix bare-checkout`",
    }.items():
        with pytest.raises(NotACheckout) as refused:
            await root_of(path, "fix")
        assert str(path) in str(refused.value)
        assert told in str(refused.value)


async def test_a_folder_without_git_is_used_whole_and_told(checkout: Path) -> None:
    write(checkout, "a.py")
    assert await root_of(checkout, "fix") == (checkout, "")
    (note,) = (await list_files(checkout)).notes
    assert note.startswith("this is no git checkout")
