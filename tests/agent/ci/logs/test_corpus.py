"""Every log of the corpus is read as the report of the very same run says (tests/data/logs/make.py makes both)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent.ci.logs import LogReading, read_log

CORPUS = Path(__file__).parents[3] / "data" / "logs"
NAMES = sorted(folder.parent.name for folder in CORPUS.glob("*/expected.json"))


def case(name: str) -> tuple[LogReading, dict[str, Any]]:
    log = (CORPUS / name / "log.txt").read_bytes().decode()
    return read_log(log), json.loads((CORPUS / name / "expected.json").read_text())


def test_the_corpus_is_there() -> None:
    assert len(NAMES) >= 60


@pytest.mark.parametrize("name", NAMES)
def test_a_log_is_read_as_its_report_says(name: str) -> None:
    reading, expected = case(name)
    told = {failure["id"]: failure for failure in expected["failures"]}
    ids = frozenset(reading.ids)
    if any("joined" in failure for failure in expected["failures"]):
        ids = frozenset(each.replace(" > ", " ") for each in ids)
    assert ids == set(told)
    assert reading.cause == expected["cause"], reading.evidence
