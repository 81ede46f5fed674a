"""What a person is told of the cause when no model was asked: short, and without lists."""

import pytest

from agent.contract.proposal import Candidate, FileChange
from agent.contract.verdicts import Failure, Frame, VerdictId
from agent.diagnosis.evidence import CATEGORIES, from_verdicts

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


def test_the_change_is_told_with_its_place_and_the_place_once() -> None:
    found = from_verdicts(cases(3), CHANGE)
    assert found.cause.endswith("They pass once `a < b` becomes `a <= b` in `rate` (src/rates.py:29).")
    assert found.cause.count("src/rates.py") == 1
    assert "tests/test_rates.py" not in found.cause
    assert (found.category, found.confidence) == ("boundary", 0.7)


def test_a_change_whose_title_names_no_place_gets_one() -> None:
    change = Candidate("model:x", CHANGE.edits, "add must add.")
    assert from_verdicts(cases(1), change).cause.endswith("It passes with this change: add must add (src/rates.py).")


def test_without_a_change_the_place_where_it_is_raised_is_told() -> None:
    frames = (Frame("tests/test_a.py", 3, "test_a"), Frame("src/a.py", 19, "parse"))
    assert from_verdicts([failure("tests/test_a.py::test_a", "E", *frames)]).cause.endswith(
        "It is raised in `parse` (src/a.py:19)."
    )


def test_every_category_has_plain_words() -> None:
    assert all(" " in words or words == "formatting" for words in CATEGORIES.values())
