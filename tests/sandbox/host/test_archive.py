"""Archives that lie, and those that are honest."""

from __future__ import annotations

import gzip
import os
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.base import UnsafeArchive
from sandbox.host.archive import ArchiveLimits, unpack
from sandbox.host.tree import Tree
from tests.sandbox.conftest import MIB, chunks, packed, tarball


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "inside").mkdir()
    return tmp_path / "inside"


@pytest.fixture
def tree(folder: Path) -> Iterator[Tree]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    yield Tree(descriptor)
    os.close(descriptor)


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", content: bytes = b"") -> tuple[tarfile.TarInfo, bytes]:
    header = tarfile.TarInfo(name)
    header.type, header.linkname, header.size = kind, link, len(content)
    return header, content


async def test_the_top_folder_is_dropped_and_modes_are_kept(tree: Tree, folder: Path) -> None:
    assert await unpack(tarball({"a/b.txt": b"1", "run.sh": b"2", "ü\udcff.bin": b"\0"}), tree) == 3
    assert (folder / "a/b.txt").read_bytes() == b"1"
    assert os.access(folder / "run.sh", os.X_OK)
    assert not os.access(folder / "a/b.txt", os.X_OK)


@pytest.mark.parametrize(
    "hostile",
    [
        [member("top/../../escaped", content=b"x")],
        [member("top/a/../../../escaped", content=b"x")],
        [member("/tmp/absolute", content=b"x")],
        [member("top/link", tarfile.SYMTYPE, "/etc/passwd")],
        [member("top/link", tarfile.SYMTYPE, "../../outside")],
        [member("top/a/link", tarfile.SYMTYPE, "../..")],
        [member("top/link", tarfile.SYMTYPE, ".."), member("top/link/escaped", content=b"x")],
        [member("top/dir", tarfile.SYMTYPE, "real"), member("top/dir/file", content=b"x")],
        [member("top/hard", tarfile.LNKTYPE, "top/a")],
        [member("top/device", tarfile.CHRTYPE)],
        [member("top/block", tarfile.BLKTYPE)],
        [member("top/pipe", tarfile.FIFOTYPE)],
        [member("top/twice", content=b"1"), member("top/twice", content=b"2")],
        [member("top/file", content=b"1"), member("top/file/below", content=b"2")],
        [member("top/a", content=b"1"), member("other/b", content=b"2")],
        [member("lonely", content=b"1")],
        [member("top/" + "n" * 300, content=b"1")],
        [member("top/" + "d/" * 300 + "x", content=b"1")],
        [],
    ],
    ids=lambda hostile: ",".join(header.name[:20] for header, _ in hostile) or "empty",
)
async def test_what_leads_outside_or_is_no_file_is_refused(
    hostile: list[tuple[tarfile.TarInfo, bytes]], tree: Tree, folder: Path
) -> None:
    with pytest.raises(UnsafeArchive):
        await unpack(packed(hostile), tree)
    assert [path.name for path in folder.parent.iterdir()] == ["inside"]
    assert not Path("/tmp/absolute").exists()


async def test_a_link_within_the_tree_is_kept_and_never_followed(tree: Tree, folder: Path) -> None:
    await unpack(packed([member("top/a/link", tarfile.SYMTYPE, "../real.txt"), member("top/real.txt", content=b"r")]), tree)
    assert os.readlink(folder / "a/link") == "../real.txt"
    with pytest.raises(ValueError, match="cannot be opened as a regular file"):
        tree.read("a/link", 100)


@pytest.mark.parametrize(
    "limits",
    [ArchiveLimits(unpacked=MIB), ArchiveLimits(ratio=20, ratio_from=MIB), ArchiveLimits(packed=100)],
    ids=["bytes", "ratio", "packed"],
)
async def test_a_bomb_is_refused(limits: ArchiveLimits, tree: Tree, folder: Path) -> None:
    with pytest.raises(UnsafeArchive, match=r"more than|larger than"):
        await unpack(tarball({"zeros": bytes(8 * MIB)}), tree, limits)
    assert sum(path.stat().st_size for path in folder.rglob("*")) <= 2 * MIB


async def test_too_many_entries_are_refused(tree: Tree) -> None:
    with pytest.raises(UnsafeArchive, match="more than 10 entries"):
        await unpack(tarball({f"f{number}": b"" for number in range(20)}), tree, ArchiveLimits(entries=10))


async def test_a_header_that_asks_for_much_memory_is_refused(tree: Tree) -> None:
    header = tarfile.TarInfo("top/long")
    header.type, header.size = tarfile.XHDTYPE, 1 << 33
    bomb = gzip.compress(header.tobuf() + bytes(64 * MIB))
    with pytest.raises(UnsafeArchive, match="header"):
        await unpack(chunks(bomb), tree)


async def test_a_broken_archive_is_refused(tree: Tree) -> None:
    whole = b"".join([chunk async for chunk in tarball({"a": os.urandom(200_000), "b": b"2"})])
    for broken in (b"", b"PK\x03\x04 not a tar", gzip.compress(b"not a tar either" * 100), whole[:-50_000], whole[:100]):
        with pytest.raises(UnsafeArchive):
            await unpack(chunks(broken), tree)


async def test_git_folders_are_left_out(tree: Tree, folder: Path) -> None:
    await unpack(tarball({".git/hooks/post-checkout": b"", "a/.Git/config": b"", ".gitignore": b"x"}), tree)
    assert sorted(path.name for path in folder.rglob("*")) == [".gitignore"]


async def test_what_git_archive_makes_is_unpacked(tmp_path: Path, tree: Tree, folder: Path) -> None:
    """GitHub's tarballs are made by it, with the commit in a global header."""
    source = tmp_path / "source"
    source.mkdir()
    (source / "ä long name ").write_text("1")
    (source / ("deep/" * 30)).mkdir(parents=True)
    (source / ("deep/" * 30) / "file").write_text("2")
    for argv in (["init", "-q"], ["add", "."], ["-c", "user.name=n", "-c", "user.email=e@x", "commit", "-qm", "m"]):
        subprocess.run(["git", *argv], cwd=source, check=True)
    made = subprocess.run(
        ["git", "archive", "--format=tar.gz", "--prefix=o-r-1/", "HEAD"], cwd=source, check=True, capture_output=True
    )
    assert await unpack(chunks(made.stdout), tree) == 2
    assert (folder / ("deep/" * 30) / "file").read_text() == "2"


async def test_the_stream_is_read_in_any_pieces(tree: Tree, folder: Path) -> None:
    whole = b"".join([chunk async for chunk in tarball({"a": b"123"})])
    await unpack(chunks(whole, 7), tree)
    assert (folder / "a").read_bytes() == b"123"
