"""What runs say of a candidate."""

from __future__ import annotations

import pytest

from agent.checks.oracle import unmoved
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
