"""What runs say of a candidate."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.checks.oracle import base_of, flaky_ids, oracle_of, unmoved
from agent.contract.verdicts import Check, CheckRun, Failure, Oracle, Verdict, VerdictId

A, B = VerdictId("t::a"), VerdictId("t::b")
CHECK = Check("tests", "pytest", "pytest")
ORACLE = Oracle((CHECK,), {"tests": frozenset({A, B})}, {"tests": frozenset()})


def run(**messages: str) -> dict[str, CheckRun]:
    told = tuple(Failure(VerdictId(f"t::{name}"), message) for name, message in messages.items())
    green = dict.fromkeys((A, B), Verdict.PASSED)
    return {"tests": CheckRun("tests", "finished", green | {each.id: Verdict.FAILED for each in told}, told, 1.0)}


@pytest.mark.parametrize(
    ("now", "same"),
    [
        (run(b="assert 3 == 5", a="zero"), True),
        (run(a="zero", b="assert 3 == 5"), True),
        (run(a="zero", b="assert 4 == 5"), False),
        (run(a="zero"), False),
        (run(), False),
    ],
)
def test_a_failure_is_unmoved_where_every_target_fails_with_its_message(now: dict[str, CheckRun], same: bool) -> None:
    assert unmoved(ORACLE, run(b="assert 3 == 5", a="zero"), now) is same


RED, GREEN = run(a="zero")["tests"], run()["tests"]
CUT = replace(GREEN, ending="timeout", verdicts={B: Verdict.PASSED})  # before it reached `A`


@pytest.mark.parametrize(
    ("runs", "flaky", "must_turn"),
    [
        ((RED, RED), {}, {A}),
        ((RED, GREEN), {A: 1}, set[VerdictId]()),
        ((RED, CUT), {}, set[VerdictId]()),
        ((RED, CUT, RED), {}, {A}),
        ((RED, CUT, GREEN), {A: 1}, set[VerdictId]()),
        ((CUT, RED, RED), {}, {A}),
    ],
)
def test_a_run_that_did_not_reach_a_test_says_nothing_of_it(
    runs: tuple[CheckRun, ...], flaky: dict[VerdictId, int], must_turn: set[VerdictId]
) -> None:
    rounds = [(each,) for each in runs]
    assert flaky_ids(rounds) == flaky
    assert oracle_of((CHECK,), rounds).must_turn == {"tests": must_turn}
    if must_turn:
        assert base_of(rounds)[0].red == must_turn, "the first run that counts"
