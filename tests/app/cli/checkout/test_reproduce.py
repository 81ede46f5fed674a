"""What `selfheal reproduce` tells of a failure that comes and goes."""

from __future__ import annotations

import io
from dataclasses import replace

from rich.console import Console

from agent.case import without_a_run
from agent.contract.outcome import Flakiness
from agent.contract.verdicts import Conditions, VerdictId
from agent.engine import Reproduction
from agent.report import endings
from app.cli.checkout.reproduce import ReproductionReport

FOUND = Flakiness(
    (VerdictId("test_a.py::test_b"),), 3, 12, "order", ("fails every time in shuffled order -1",), (Conditions(-1),)
)


def test_how_often_and_why_is_told() -> None:
    ending = endings.flaky(FOUND)
    ended = replace(without_a_run(ending.outcome, ending.reason, ending.next_step), flakiness=FOUND)
    told = ReproductionReport(Reproduction(ended, None), 1.0, {"start": 0.01, "install": 0.9})

    found = told.as_json()["flakiness"]
    assert (found["red"], found["runs"], found["cause"], found["ids"]) == (3, 12, "order", ("test_a.py::test_b",))
    assert found["under"][0]["shuffle"] == -1

    console = Console(file=io.StringIO(), width=400)
    told.show(console)
    said = console.file.getvalue()  # type: ignore[attr-defined]
    assert "failed in 3 of 12 runs" in said
    assert "Suspected cause: order (fails every time in shuffled order -1)" in said
    assert "1.0 s (0.9 s install)" in said


def test_where_nothing_comes_and_goes_nothing_is_told_of_it() -> None:
    ended = without_a_run(endings.limit_reached("it").outcome, "why", "what")
    assert ReproductionReport(Reproduction(ended, None), 1.0, {"start": 0.01, "install": 0.9}).as_json()["flakiness"] is None
