"""What goes into an engine and what comes out of it, as tars; no engine is needed for that."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from sandbox.base import UnsafeArchive
from sandbox.containers.command import USER
from sandbox.containers.files import TarBuilder, entries, one_file
from sandbox.host.archive import unpack
from tests.sandbox.conftest import packed, tarball


def tar_of(*members: tuple[str, bytes, bytes]) -> bytes:
    """Members are (name, type, content or link)."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, kind, content in members:
            header = tarfile.TarInfo(name)
            header.type = kind
            if kind == tarfile.REGTYPE:
                header.size = len(content)
            else:
                header.linkname = content.decode()
            tar.addfile(header, io.BytesIO(content) if kind == tarfile.REGTYPE else None)
    return buffer.getvalue()


async def test_an_archive_becomes_a_tar_of_ours_that_no_command_user_has_to_share() -> None:
    packing = TarBuilder()
    assert await unpack(tarball({"a.txt": b"1", "deep/down/run.sh": b"2", ".git/config": b""}), packing) == 2
    with tarfile.open(fileobj=packing.finish()) as tar:
        members = {member.name: member for member in tar}
    assert sorted(members) == ["a.txt", "deep", "deep/down", "deep/down/run.sh"]
    assert {(member.uid, member.gid) for member in members.values()} == {(USER, USER)}
    assert (members["deep/down/run.sh"].mode, members["a.txt"].mode, members["deep"].mode) == (0o755, 0o644, 0o755)


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ([("t/a", tarfile.REGTYPE, b"1"), ("t/a", tarfile.REGTYPE, b"2")], "twice"),
        ([("t/a", tarfile.REGTYPE, b"1"), ("t/a/b", tarfile.REGTYPE, b"2")], "not a folder"),
        ([("t/a/b", tarfile.REGTYPE, b"1"), ("t/a", tarfile.REGTYPE, b"2")], "twice"),
        ([("t/a", tarfile.SYMTYPE, b"/etc"), ("t/a/b", tarfile.REGTYPE, b"2")], "outside"),
        ([("t/a", tarfile.SYMTYPE, b"b"), ("t/a", tarfile.REGTYPE, b"2")], "twice"),
        ([("t/" + "x" * 256, tarfile.REGTYPE, b"")], "too long"),
        ([("t/d", tarfile.CHRTYPE, b"")], "not a file"),
    ],
)
async def test_what_would_be_written_through_or_over_something_is_refused(
    members: list[tuple[str, bytes, bytes]], reason: str
) -> None:
    def header(name: str, kind: bytes, content: bytes) -> tuple[tarfile.TarInfo, bytes]:
        made = tarfile.TarInfo(name)
        made.type = kind
        if kind == tarfile.SYMTYPE:
            made.linkname = content.decode()
            return made, b""
        made.size = len(content)
        return made, content

    with pytest.raises(UnsafeArchive, match=reason):
        await unpack(packed([header(*member) for member in members]), TarBuilder())


def test_a_listing_is_read_from_front_to_back_and_unpacks_nothing() -> None:
    tar = tar_of(
        ("repo", tarfile.DIRTYPE, b""),
        ("repo/b", tarfile.REGTYPE, b"123"),
        ("repo/second", tarfile.LNKTYPE, b"repo/b"),
        ("repo/a", tarfile.SYMTYPE, b"../../etc"),
        ("repo/pipe", tarfile.FIFOTYPE, b""),
        ("repo/.git/config", tarfile.REGTYPE, b"x"),
        ("repo/sub/.git/config", tarfile.REGTYPE, b"x"),
    )
    found = entries(io.BytesIO(tar).read)
    assert [(entry.path, entry.size, entry.link) for entry in found] == [("a", 9, True), ("b", 3, False), ("second", 3, False)]
    for cut in (700, 1024, 1200):
        with pytest.raises(tarfile.TarError):
            entries(io.BytesIO(tar[:cut]).read)


def test_one_file_is_one_file() -> None:
    assert one_file(tar_of(("a", tarfile.REGTYPE, b"content"))) == b"content"
    for other in (tar_of(("a", tarfile.SYMTYPE, b"/etc/passwd")), tar_of(("a", tarfile.DIRTYPE, b"")), tar_of(), b"not a tar"):
        with pytest.raises(ValueError, match=r".+"):
            one_file(other)


def test_a_folder_of_ours_is_copied_with_what_is_below_it(tmp_path: Path) -> None:
    (tmp_path / "pip/sub").mkdir(parents=True)
    (tmp_path / "pip/__main__.py").write_text("x")
    (tmp_path / "pip/sub/program").write_text("y")
    (tmp_path / "pip/sub/program").chmod(0o755)
    packing = TarBuilder()
    packing.copy(tmp_path / "pip", "0123/pip")
    with tarfile.open(fileobj=packing.finish()) as tar:
        modes = {member.name: member.mode for member in tar if member.isreg()}
    assert modes == {"0123/pip/__main__.py": 0o644, "0123/pip/sub/program": 0o755}


def test_what_was_installed_is_left_out_wherever_its_mark_comes() -> None:
    modules = ("repo/node_modules/z.js", "repo/own/node_modules/x.js", "repo/my_node_modules/.selfheal-installed")
    members = [
        (name, tarfile.REGTYPE, b"") for name in (*modules, "repo/node_modules/.selfheal-installed", "repo/node_modules2/a")
    ]
    tar = tar_of(("repo", tarfile.DIRTYPE, b""), *members)
    found = [entry.path for entry in entries(io.BytesIO(tar).read)]
    assert found == ["my_node_modules/.selfheal-installed", "node_modules2/a", "own/node_modules/x.js"]
