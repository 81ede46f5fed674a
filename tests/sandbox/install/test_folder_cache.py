"""Kept downloads: what is used stays, what is old goes."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from sandbox.host import disk
from sandbox.install import folder_cache


def answer(cache: Path, question: str, made: float, size: int = 10) -> Path:
    """A kept answer that was made at `made`."""
    held = folder_cache.create(cache, question)
    (held.folder / "one.whl").write_bytes(bytes(size))
    kept = folder_cache.commit(held)
    folder_cache.release(kept)
    head, _, token = kept.folder.name.rpartition("-")
    folder = cache / f"{head.rpartition('-')[0]}-{int(made * 1e9):020d}-{token}"
    return kept.folder.rename(folder)


def names(cache: Path) -> set[str]:
    return {folder.name for folder in cache.iterdir()}


def test_the_newest_answer_to_a_question_is_found(tmp_path: Path) -> None:
    answer(tmp_path, "q", 1000)
    last = answer(tmp_path, "q", 2000)
    answer(tmp_path, "other", 3000)
    held = folder_cache.newest(tmp_path, "q")
    assert held is not None
    assert (held.folder, held.made) == (last, 2000.0)
    folder_cache.release(held)
    assert folder_cache.newest(tmp_path, "none") is None
    assert folder_cache.newest(tmp_path / "nowhere", "q") is None


def test_what_is_not_kept_goes_when_it_is_put_back(tmp_path: Path) -> None:
    held = folder_cache.create(tmp_path, "q")
    assert folder_cache.newest(tmp_path, "q") is None, "nobody finds what is half done"
    folder_cache.release(held)
    assert not names(tmp_path)


def test_the_oldest_go_above_the_bound_but_never_one_that_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    used, old, older, fresh = (answer(tmp_path, q, made, 100) for q, made in zip("abcd", (1000, 3000, 2000, 4000), strict=True))
    monkeypatch.setattr(folder_cache, "BOUND", int(2.5 * disk.size(used, 1 << 30)))
    held = folder_cache.newest(tmp_path, "a")
    assert held is not None
    folder_cache.prune(tmp_path)
    assert names(tmp_path) == {used.name, old.name, fresh.name}
    assert older.name not in names(tmp_path)
    folder_cache.release(held)
    folder_cache.prune(tmp_path)
    assert names(tmp_path) == {old.name, fresh.name}


def test_an_answer_with_a_newer_one_and_what_a_dead_worker_left_are_swept(tmp_path: Path) -> None:
    answer(tmp_path, "q", 1000)
    last = answer(tmp_path, "q", 2000)
    half = folder_cache.create(tmp_path, "q")
    (tmp_path / f"new-q-{time.time_ns():020d}-dead").mkdir()
    (tmp_path / "from-another-version").mkdir()
    os.truncate(tmp_path / last.name / "one.whl", 5)
    folder_cache.prune(tmp_path)
    assert names(tmp_path) == {last.name, half.folder.name, "from-another-version"}
    folder_cache.release(half)


def test_half_an_answer_goes_as_soon_as_nobody_holds_it(tmp_path: Path) -> None:
    left, used = (folder_cache.create(tmp_path, "q") for _ in range(2))
    os.close(left.lock)  # as when its worker dies
    kept = answer(tmp_path, "q", 1000)
    folder_cache.remove_unfinished(tmp_path)
    assert names(tmp_path) == {used.folder.name, kept.name}
    folder_cache.release(used)


def test_a_folder_that_is_cleared_before_it_is_locked_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock, met = folder_cache.try_lock, []

    def meets_a_sweeper(folder: Path, kind: int) -> int | None:
        if not met:
            met.append(folder)
            folder_cache.remove_unfinished(tmp_path)
        return lock(folder, kind)

    monkeypatch.setattr(folder_cache, "try_lock", meets_a_sweeper)
    held = folder_cache.create(tmp_path, "q")
    assert names(tmp_path) == {held.folder.name} != {met[0].name}
    folder_cache.release(held)
