from __future__ import annotations

import pytest

from agent.alike import alike
from agent.oracle import Verification
from agent.refuting import causes_left, left_as_it_was
from agent.state import remember
from agent.task import Diagnosis, Failure, VerdictId


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("The parser drops the last token.", "the last token is dropped by the parser", False),
        ("`parse` drops the last token of a line", "parse drops the last token of the line.", True),
        ("add multiplies: a * b", "add subtracts: a - b", False),
        ("retry 3 times", "retry 4 times", False),
        ("", "", True),
    ],
)
def test_sentences_with_the_same_words_say_the_same(one: str, other: str, same: bool) -> None:
    assert alike(one, other) is same


def test_a_lesson_takes_the_place_of_one_that_says_the_same() -> None:
    lessons = remember(
        ["The parser in a.py drops the last token of a line", "b"], "The parser in a.py drops the last token of the line"
    )
    assert lessons == ["b", "The parser in a.py drops the last token of the line"]


BASE = (Failure(VerdictId("t::a"), "assert 3 == 5"),)


def test_a_change_that_left_the_failure_as_it_was_speaks_against_its_cause() -> None:
    same = Verification(False, "1 of 1 failing test stays red: `t::a` (assert 3 == 5)", (VerdictId("t::a"),))
    other = Verification(False, "1 of 1 failing test stays red: `t::a` (assert 4 == 5)", (VerdictId("t::a"),))
    broke = Verification(False, "it mends the failing tests, but breaks `t::b`", newly_red=(VerdictId("t::b"),))
    assert left_as_it_was(same, BASE)
    assert not left_as_it_was(other, BASE)
    assert not left_as_it_was(broke, BASE)


def test_refuted_causes_are_left_out() -> None:
    known = Diagnosis("the bound is off by one", "boundary", 0.3, "model:m", hypotheses=("the cache is stale", "b is None"))
    assert causes_left(known, ["The bound is off by one."]) == ("the cache is stale", "b is None")
