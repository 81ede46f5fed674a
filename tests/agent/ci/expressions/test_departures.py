"""Where GitHub's runner, which is the truth, and GitHub's npm package differ: each place is shown to be still there."""

from __future__ import annotations

import pytest

from agent.ci.expressions import Scope, evaluate
from tests.judges.node import Judge

# expression, what the runner and we make of it, what the package answers
DEPARTURES = [
    # It replaces only the first doubled quote of a text.
    ("'a''b''c'", "a'b'c", {"value": "a'b''c"}),
    # It reorders keys that look like indexes, as JavaScript does.
    ('toJSON(fromJSON(\'{"b":1,"1":2}\'))', '{\n  "b": 1,\n  "1": 2\n}', {"value": '{\n  "1": 2,\n  "b": 1\n}'}),
    # It loses keys that JavaScript's objects have from birth.
    ('fromJSON(\'{"constructor":"x"}\').constructor', "x", {"value": None}),
    # It knows fewer kinds of white space between words.
    ("1\u00a0==\f1", True, {"error": "Unexpected symbol: '\u00a0'. Located at position 2 within expression: 1\u00a0==\f1"}),
    # It keeps halves of surrogate pairs, which no file or process can take.
    ("fromJSON('\"\\ud800\"')", "\ufffd", {"value": "\ud800"}),
]


def test_what_the_runner_does_is_done_where_the_package_differs() -> None:
    assert [evaluate(text, Scope({})) for text, _, _ in DEPARTURES] == [runner for _, runner, _ in DEPARTURES]


@pytest.mark.optional(reason="needs node and GitHub's packages from npm")
def test_the_package_still_differs(judge: Judge) -> None:
    answers = judge.answer("expressions.mjs", {"contexts": {}, "expressions": [text for text, _, _ in DEPARTURES]})
    assert answers == [package for _, _, package in DEPARTURES]
