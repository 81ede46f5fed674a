from __future__ import annotations

import pytest

from agent.contract.proposal import Diagnosis
from agent.diagnosis.evidence import causes_left, is_similar
from agent.state import remember


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
    assert is_similar(one, other) is same


def test_a_lesson_takes_the_place_of_one_that_says_the_same() -> None:
    lessons = remember(
        ["The parser in a.py drops the last token of a line", "b"], "The parser in a.py drops the last token of the line"
    )
    assert lessons == ["b", "The parser in a.py drops the last token of the line"]


def test_refuted_causes_are_left_out() -> None:
    known = Diagnosis("the bound is off by one", "boundary", 0.3, "model:m", hypotheses=("the cache is stale", "b is None"))
    assert causes_left(known, ["The bound is off by one."]) == ("the cache is stale", "b is None")
