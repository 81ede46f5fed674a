"""Trouble of this machine is told as such, and never as a fault of the repository."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sandbox.base import LimitExceeded, SandboxLost, UnsafeArchive
from sandbox.host.folder_workspace import FolderWorkspace
from sandbox.host.tree import Tree
from tests.sandbox.conftest import tarball


@pytest.fixture
async def held(tmp_path: Path) -> AsyncIterator[FolderWorkspace]:
    workspace = FolderWorkspace(os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY), disk=12345)
    yield workspace
    await workspace.close()


@contextmanager
def no_more_descriptors() -> Iterator[None]:
    """As on a machine that has too many files open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.dup(0)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest + 1, hard))  # one is for the archive itself
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_no_descriptors_are_no_fault_of_the_archive(held: FolderWorkspace) -> None:
    await held.unpack(tarball({"before.txt": b"1"}))  # what has to be started once, is
    with no_more_descriptors(), pytest.raises(SandboxLost, match="Too many open files"):
        await held.unpack(tarball({"a/b.txt": b"1"}))


async def test_no_descriptors_are_no_fault_of_a_path(held: FolderWorkspace) -> None:
    await held.write("a/b.txt", b"1")
    with no_more_descriptors(), pytest.raises(SandboxLost, match="Too many open files"):
        await held.read("a/b.txt")


@pytest.mark.parametrize("reason", [errno.ENOSPC, errno.EDQUOT])
async def test_a_full_disk_is_a_limit(held: FolderWorkspace, monkeypatch: pytest.MonkeyPatch, reason: int) -> None:
    def full(*_: object) -> None:
        raise OSError(reason, os.strerror(reason))

    monkeypatch.setattr(Tree, "create", full)
    with pytest.raises(LimitExceeded, match="12345"):
        await held.unpack(tarball({"a.txt": b"1"}))


async def test_a_name_that_no_file_can_have_is_a_fault_of_the_archive_or_the_path(held: FolderWorkspace) -> None:
    with pytest.raises(UnsafeArchive, match="name"):
        await held.unpack(tarball({"n" * 300: b"1"}))
    with pytest.raises(ValueError, match="name"):
        await held.write("n" * 300, b"1")
