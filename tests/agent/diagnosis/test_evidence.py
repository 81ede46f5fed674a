"""What a person is told of the cause when no model was asked: short, and without lists."""

import pytest

from agent.contract.proposal import Candidate, FileChange
from agent.contract.verdicts import Failure, Frame, VerdictId
from agent.diagnosis.evidence import CATEGORIES, for_people, from_verdicts, of_repair

CHANGE = Candidate(
    "patterns",
    (FileChange("src/rates.py", "if a < b:\n", "if a <= b:\n"),),
    "`a < b` becomes `a <= b` in `rate` (src/rates.py:29)",
)


def failure(id_: str, message: str = "AssertionError: assert 550 == 390", *frames: Frame) -> Failure:
    return Failure(VerdictId(id_), message, frames=frames)


def cases(count: int) -> list[Failure]:
    return [failure(f"tests/test_rates.py::test_rate[{n}]") for n in range(count)]


@pytest.mark.parametrize(
    ("failures", "cause"),
    [
        (cases(3), "3 cases of `test_rate` fail with `AssertionError: assert 550 == 390`."),
        (cases(1), "`test_rate` fails with `AssertionError: assert 550 == 390`."),
        (cases(12), "12 cases of `test_rate` fail with `AssertionError: assert 550 == 390`."),
        ([failure("t.py::a", "E: 1"), failure("t.py::b", "E: 2")], "2 tests fail, the first with `E: 1`."),
        ([failure("t.py::a", "")], "`a` fails."),
        ([failure("t.py::a", "did not finish in 5 s")], "`a` fails with a timeout: it did not finish in 5 s."),
        ([failure("t.py::a", "got `x`\nand more")], "`a` fails with `got 'x' and more`."),
        ([failure("a.py: F401 `os` unused", "F401 `os` unused")], "1 finding: `F401 'os' unused`."),
        ([failure("exit", "exit code 2: no")], "The whole command fails with `exit code 2: no`."),
        ([], "A check fails."),
    ],
)
def test_the_failing_verdicts_are_told_in_one_sentence(failures: list[Failure], cause: str) -> None:
    assert from_verdicts(failures).cause == cause


def test_the_cause_of_a_repair_is_what_failed_and_does_not_repeat_the_change() -> None:
    found = of_repair(cases(3), CHANGE, None)
    assert found.cause == "3 cases of `test_rate` fail with `AssertionError: assert 550 == 390`."
    assert (found.category, found.confidence) == ("boundary", 0.7)


BY_PYTEST = """\
    def test_a():
        total = parse("1")
>       assert plural('mouse') == 'mice'
E       AssertionError: assert 'mouses' == 'mice'

tests/test_a.py:3: AssertionError"""
SHORT = """\
tests/test_a.py:3: in test_a
    assert plural('mouse') == 'mice'
E   AssertionError: assert 'mouses' == 'mice'"""
BY_PYTHON = """\
Traceback (most recent call last):
  File "/repo/tests/test_a.py", line 3, in test_a
    assert plural('mouse') == 'mice'
           ^^^^^^^^^^^^^^^^^^^^^^^^^
AssertionError"""


@pytest.mark.parametrize("details", [BY_PYTEST, SHORT, BY_PYTHON])
def test_people_are_told_the_line_of_the_test_that_fails(details: str) -> None:
    def told(message: str, details: str = details) -> str:
        frames = (Frame("tests/test_a.py", 3, "test_a"),)
        return for_people([Failure(VerdictId("tests/test_a.py::test_a"), message, details, frames)]).cause

    shown = "`assert plural('mouse') == 'mice'` (tests/test_a.py:3)"
    assert told("AssertionError") == f"`test_a` fails: {shown}."
    assert told("AssertionError: 1 != 2") == f"`test_a` fails with `AssertionError: 1 != 2`. It fails at {shown}."
    assert (
        told("E", details.replace("test_a.py", "test_b.py"))
        == "`test_a` fails with `E`. It is raised in `test_a` (tests/test_a.py:3)."
    )


def test_without_a_change_the_place_where_it_is_raised_is_told() -> None:
    frames = (Frame("tests/test_a.py", 3, "test_a"), Frame("src/a.py", 19, "parse"))
    assert from_verdicts([failure("tests/test_a.py::test_a", "E", *frames)]).cause.endswith(
        "It is raised in `parse` (src/a.py:19)."
    )


def test_every_category_has_plain_words() -> None:
    assert all(" " in words or words == "formatting" for words in CATEGORIES.values())
