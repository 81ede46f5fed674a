"""A lock on a folder is ours, another's, or cannot be told; only the last is an error."""

from __future__ import annotations

import fcntl
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sandbox import folders
from sandbox.host.folder_locks import is_left_over, lock_if_abandoned, try_lock
from sandbox.install import folder_cache


@contextmanager
def no_descriptor_left() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.open("/dev/null", os.O_RDONLY)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_anothers_lock_and_a_folder_that_is_gone_are_no_errors(tmp_path: Path) -> None:
    assert try_lock(tmp_path / "gone", fcntl.LOCK_EX) is None
    first = try_lock(tmp_path, fcntl.LOCK_SH)
    assert first is not None
    assert try_lock(tmp_path, fcntl.LOCK_EX) is None
    os.close(first)
    again = try_lock(tmp_path, fcntl.LOCK_EX)
    assert again is not None
    os.close(again)


def test_what_cannot_be_told_is_an_error_and_never_abandoned(tmp_path: Path) -> None:
    with no_descriptor_left():
        with pytest.raises(OSError, match="Too many open files"):
            try_lock(tmp_path, fcntl.LOCK_EX)
        assert lock_if_abandoned(tmp_path) is None
    (tmp_path / "link").symlink_to(tmp_path)
    assert lock_if_abandoned(tmp_path / "link") is None


def test_without_a_free_descriptor_one_folder_is_made_and_then_it_fails(tmp_path: Path) -> None:
    with no_descriptor_left():
        with pytest.raises(OSError, match="Too many open files"):
            folders.make(tmp_path / "open", "a label")
        with pytest.raises(OSError, match="Too many open files"):
            folder_cache.create(tmp_path / "shelf", "q")
    assert len(list((tmp_path / "open").iterdir())) == 1
    assert len(list((tmp_path / "shelf").iterdir())) == 1
    folders.sweep(tmp_path / "open")
    folder_cache.remove_unfinished(tmp_path / "shelf")
    assert not [*(tmp_path / "open").iterdir(), *(tmp_path / "shelf").iterdir()], "nobody holds them"


def test_a_folder_of_another_user_is_left_over_and_one_in_use_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_left_over(tmp_path)
    lock = try_lock(tmp_path, fcntl.LOCK_EX)
    assert not is_left_over(tmp_path)
    assert lock is not None
    os.close(lock)

    def refused(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "open", refused)  # root may open everything
    assert is_left_over(tmp_path)
