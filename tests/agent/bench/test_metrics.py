"""What is measured of written code beside its correctness."""

from __future__ import annotations

import pytest

from agent.bench.metrics import built_in, means, measured
from agent.bench.score import Entry

CODE = '''\
"""A module."""


def sign(number):
    """Say
    the sign."""
    # a comment
    if number > 0 and number != 1:
        return 1

    return -1 if number < 0 else 0


def plain():
    return 1
'''


def entry(id_: str, code: dict[str, str], **details: object) -> Entry:
    return Entry(id=id_, group="all", outcome="healed", plausible=True, details={"code": code, **details})


def test_lines_docstrings_complexity_and_coverage() -> None:
    pytest.importorskip("lizard")
    values = measured([entry("a", {"solution.py": CODE}, coverage=0.75), entry("b", {})], built_in())
    assert values == {"a": {"complexity": 2.5, "lines": 6.0, "documented": 0.5, "coverage": 0.75}}
    two = {**values, "c": {"lines": 4.0}}
    assert means(two, built_in())["lines"] == 5.0


def test_code_that_does_not_parse_has_no_lines() -> None:
    values = measured([entry("a", {"solution.py": "def"})], built_in())
    assert "lines" not in values["a"]
