"""Many changes in a row in one process."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.guest.trial.batch import DEATHS, LIFE, Batch, _outcome
from agent.guest.trial.snapshot import Snapshot


def restored(root: Path) -> Callable[[], contextlib.AbstractContextManager[None]]:
    snapshot = Snapshot(str(root))

    @contextlib.contextmanager
    def alone() -> Iterator[None]:
        snapshot.restore()
        yield

    return alone


class Deadly:
    """A test that ends its process."""

    reached = None

    def again(self) -> Any:
        os._exit(3)


def test_a_batch_whose_processes_die_at_once_gives_up(tmp_path: Path) -> None:
    batch = Batch(str(tmp_path), lambda _: lambda: None, [(Deadly(), 0.01, 0.01)], None, (), contextlib.nullcontext)
    assert all(outcome is None for _, outcome in batch.run([[]] * 200, time.monotonic() + 30))
    assert batch.is_broken
    assert batch.tried == DEATHS


class Spoilt:
    """A test that passes with the change "right", and fails elsewhere once "spoils" was tried in its process."""

    def __init__(self) -> None:
        self.reached, self.tried = 1, ""

    def swap(self, edits: Any) -> Any:
        (self.tried,) = edits
        return lambda: None

    def again(self) -> Any:
        self.reached = 2 if self.tried == "spoils" else self.reached
        return self.tried == "right" and self.reached == 1


def test_a_change_that_spoils_its_process_hides_none_of_the_next(tmp_path: Path) -> None:
    test, jobs = Spoilt(), [["wrong"], ["spoils"], ["wrong"], ["right"], ["wrong"]]
    batch = Batch(str(tmp_path), test.swap, [(test, 0.01, 0.01)], None, (), contextlib.nullcontext)
    found = list(batch.run(jobs, time.monotonic() + 30))  # type: ignore[arg-type]
    assert {index for index, outcome in found if outcome == "passed"} == {3}


@pytest.mark.parametrize(
    "told", [[], ["passed", 1], [None], [["a", "b"]], [["further", "a", "b"]], [["further", 1]], [3], [{"passed": 1}]]
)
def test_what_code_under_test_writes_is_no_outcome(told: list[Any]) -> None:
    assert _outcome(told) is None
    assert [_outcome([each]) for each in ("passed", "fresh", ["further", 1, 4])] == ["passed", "fresh", ("further", 1, 4)]


class Compiling:
    """A test that passes with the change "right", unless another one has left its result behind in a file."""

    reached = 1

    def __init__(self, folder: Path) -> None:
        self.compiled, self.tried = folder / "compiled", ""

    def swap(self, edits: Any) -> Any:
        (self.tried,) = edits
        return lambda: None

    def again(self) -> Any:
        if self.tried == "spoils":
            self.compiled.touch()
        return self.tried == "right" and not self.compiled.exists()


def test_a_file_that_a_change_leaves_behind_decides_nothing_for_later_processes(tmp_path: Path) -> None:
    test, jobs = Compiling(tmp_path), [["spoils"], *[["wrong"]] * LIFE, ["right"]]
    batch = Batch(str(tmp_path), test.swap, [(test, 0.01, 0.01)], None, (), restored(tmp_path))
    found = list(batch.run(jobs, time.monotonic() + 30))  # type: ignore[arg-type]
    assert {index for index, outcome in found if outcome == "passed"} == {LIFE + 1}
