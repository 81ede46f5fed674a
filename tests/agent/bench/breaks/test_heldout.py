"""Held-out tests: whole functions, at most half of them, gone from what the engine sees."""

from __future__ import annotations

import random

import pytest

from agent.bench.breaks.heldout import chosen, leaving_out, without
from agent.contract.verdicts import VerdictId
from agent.source.archive import File

TESTS = """\
import pytest


class TestA:
    @pytest.mark.parametrize("n", [1, 2])
    def test_n(self, n):
        assert n


def test_one():
    assert 1


def test_two():
    assert 2
"""
FILES = {"t.py": File(TESTS.encode()), "a.py": File(b"x = 1\n"), "odd.py": File(b"\xff")}


def ids(*names: str) -> list[VerdictId]:
    return [VerdictId(name) for name in names]


def test_a_held_out_function_is_gone_with_its_decorators() -> None:
    files = without(FILES, ids("t.py::TestA::test_n[1]", "t.py::test_two"))
    left = "import pytest\n\n\nclass TestA:\n    pass\n\n\ndef test_one():\n    assert 1\n\n\n"
    assert files == {**FILES, "t.py": File(left.encode())}


@pytest.mark.parametrize("seed", range(5))
def test_half_of_the_functions_are_held_out_whole(seed: int) -> None:
    red = ids("t.py::TestA::test_n[1]", "t.py::TestA::test_n[2]", "t.py::test_one", "t.py::test_two")
    out = chosen(red, FILES, random.Random(seed))
    assert out in [tuple(red[:2]), tuple(red[2:3]), tuple(red[3:])]
    assert chosen(reversed(red), FILES, random.Random(seed)) == out


@pytest.mark.parametrize("seed", range(5))
def test_tests_that_classes_inherit_are_held_out_together(seed: int) -> None:
    base = "class TestA:\n    def test_n(self): ...\n    def test_m(self): ...\n"
    files = {"t.py": File(base.encode()), "u.py": File(b"from t import TestA\nclass TestB(TestA): ...\n")}
    red = ids("t.py::TestA::test_m", "t.py::TestA::test_n", "u.py::TestB::test_m", "u.py::TestB::test_n")
    out = chosen(red, files, random.Random(seed))
    assert out in [tuple(red[::2]), tuple(red[1::2])], "else no failing test would be left to see"


@pytest.mark.parametrize("red", [ids("t.py::test_one"), ids("t.py::TestA::test_n[1]", "t.py::TestA::test_n[2]"), []])
def test_the_only_failing_function_stays(red: list[VerdictId]) -> None:
    assert chosen(red, FILES, random.Random(1)) == ()


@pytest.mark.parametrize("id_", ["t.py", "t.py::test_none", "t.py::TestB::test_n", "no.py::test_one", "odd.py::test_one"])
def test_what_is_no_function_of_a_file_is_never_held_out(id_: str) -> None:
    red = ids(id_, "t.py::test_one")
    assert chosen(red, FILES, random.Random(1)) in [(), ("t.py::test_one",)]
    assert without(FILES, ids(id_)) == FILES


def test_what_fails_without_a_break_is_left_out_if_it_can_be() -> None:
    files = {**FILES, "test_odd.py": File(b"import nothing\n")}
    left = leaving_out(files, ids("test_odd.py", "t.py::test_one"))
    assert left == {**FILES, "t.py": File(TESTS.replace("def test_one():\n    assert 1\n", "").encode())}
    assert leaving_out(files, ids("a.py", "test_odd.py")) is None, "no file of the product is removed"
    assert leaving_out(files, ids("t.py::test_none")) is None
