"""What the log of an attempt says."""

from __future__ import annotations

import pytest

from agent.contract.budget import RungCost, Usage
from agent.contract.outcome import ReflectionLog

ASKED = RungCost("model:m", 1.0, 1, 0, Usage(calls=1), "found nothing")
OUT = RungCost("model:m", 1.0, 0, 0, Usage(), "the server is down", is_outage=True)
SKIPPED = RungCost("model:m", 0.0, 0, 0, Usage(), "all rounds are used up")


@pytest.mark.parametrize(
    ("rungs", "outage"),
    [
        ([OUT], "the server is down"),
        ([ASKED, OUT, SKIPPED, RungCost("patterns", 1.0, 4, 0, Usage())], "the server is down"),
        ([OUT, ASKED], ""),
        ([SKIPPED], ""),
        ([], ""),
    ],
)
def test_the_last_model_that_was_to_be_asked_decides_whether_it_could_be(rungs: list[RungCost], outage: str) -> None:
    assert ReflectionLog(None, (), (), tuple(rungs)).outage == outage
