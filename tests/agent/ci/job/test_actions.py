"""What known actions come to."""

from __future__ import annotations

import pytest

from agent.ci.job.actions import meaning_of


@pytest.mark.parametrize(
    ("wanted", "python", "is_told"),
    [
        ("3.12", "3.12", False), (">=3.11", "3.11", False), ("3.x", None, False), ("3.14-dev", "3.14", False),
        ("pypy3.10", "3.10", True), ("3.13t", "3.13", True), ("graalpy-24.2", None, True), ("3.11\n3.12", "3.11", False),
    ],
)  # fmt: skip
def test_a_python_that_is_no_ordinary_one_is_told(wanted: str, python: str | None, is_told: bool) -> None:
    meaning = meaning_of("actions/setup-python@v6", {"python-version": wanted})
    assert (meaning.kind, meaning.python, bool(meaning.note)) == ("sets_up", python, is_told)
