"""What becomes of answers that are not in the form that the prompt asks for."""

from __future__ import annotations

import time

import pytest

from agent.contract.proposal import Edits
from agent.edits.answers import clean_path, parse
from agent.edits.changes import EditProblem
from agent.edits.placement import resolve
from tests.agent.edits.malformed import KINDS, REFUSED, WANTED, Wanted

SOURCES = {wanted.path: wanted.source for wanted in WANTED}
LEAST = 80  # of the 84 answers are salvaged


def placed(answer: str) -> Edits | EditProblem:
    changes = parse(answer)
    if isinstance(changes, EditProblem):
        return changes
    named = {path: None for change in changes if change.path and (path := clean_path(change.path))}
    return resolve(changes, {**named, **SOURCES}, tuple(SOURCES))


def is_salvaged(answer: str, wanted: Wanted) -> bool:
    found = placed(answer)
    if isinstance(found, EditProblem):
        assert len(found.sentence) > 20, "the model is told why"
        return False
    assert [(edit.path, edit.after) for edit in found] == [(wanted.path, wanted.after)], "nothing may be misplaced"
    return True


def test_most_malformed_answers_are_salvaged_and_none_is_misplaced() -> None:
    lost = [(kind, wanted.path) for kind, write in KINDS.items() for wanted in WANTED if not is_salvaged(write(wanted), wanted)]
    count = len(KINDS) * len(WANTED)
    assert count >= 80
    assert count - len(lost) >= LEAST, lost


@pytest.mark.parametrize("kind", REFUSED)
def test_what_nobody_can_place_is_asked_again(kind: str) -> None:
    found = placed(REFUSED[kind])
    assert isinstance(found, EditProblem)
    assert found.sentence.endswith(".")


def test_an_answer_that_leaves_out_code_is_told_so() -> None:
    found = placed(REFUSED["a function that is left out"])
    assert isinstance(found, EditProblem)
    assert "shop/basket.py::total leaves out code (`...`)" in found.sentence


@pytest.mark.parametrize("piece", ["<path>", "<search>x", "*** Update File: a.py\n@@\n", "</think>", "<path>a</path><search>"])
def test_hostile_answers_are_read_in_a_moment(piece: str) -> None:
    began = time.process_time()
    placed(piece * (250_000 // len(piece)))
    assert time.process_time() - began < 2.0
