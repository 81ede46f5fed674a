from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz import __main__ as fuzz
from tests.fuzz.texts import reading


def number(chance: random.Random) -> int:
    return chance.randrange(100)


def tried(monkeypatch: pytest.MonkeyPatch, folder: Path, attempt: Callable[[Any], None]) -> list[str]:
    """What a target fails with, in five cases."""
    monkeypatch.setitem(fuzz.TARGETS, "own", reading("own", number, attempt))
    failures = fuzz.Failures(folder, 7)
    assert fuzz.Run("own", 7, time.monotonic() + 60, failures, cases=5).count() == 5
    return list(failures.seen)


def test_a_target_that_keeps_its_promise_has_no_failures(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert tried(monkeypatch, tmp_path, lambda case: None) == []


def test_an_exception_is_reported_once_with_its_input(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fail(case: int) -> None:
        raise KeyError(case)

    [place] = tried(monkeypatch, tmp_path, fail)
    assert place.startswith("own: KeyError at ")
    [file] = tmp_path.iterdir()
    assert file.read_text() == str(number(random.Random("7/own/0")))


def test_a_case_that_hangs_is_ended_and_the_next_ones_are_tried(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(fuzz, "PATIENCE", 0.6)
    hanging = number(random.Random("7/own/2"))

    def hang(case: int) -> None:
        if case == hanging:
            time.sleep(60)

    assert tried(monkeypatch, tmp_path, hang) == ["own: takes longer than 1 s"]


@pytest.mark.long
def test_no_target_fails_with_its_first_cases(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("sys.argv", ["fuzz", "--cases", "8", "--seed", "1", "--keep", str(tmp_path)])
    assert fuzz.main() == 0
