"""Failing tests in one line, from failures as pytest reports them."""

from __future__ import annotations

import pytest

from agent.contract.verdicts import Failure, Frame, VerdictId
from agent.contract.words import STARVED
from agent.solving import failures

CODE = {"solution.py": '"""Sums."""\n\n\ndef total(numbers):\n    return sum(numbers) // len(numbers)\n'}
EXAMPLES = """
def test_example_1():
    assert total([1, 2]) == 3

def test_example_2():
    with pytest.raises(ValueError):
        total([])

def test_example_3():
    assert total([0.5, 1]) == pytest.approx(1.5, nan_ok=True)

def test_example_4():
    assert _printed(lambda: total('')) == "<class 'int'>"
"""
GIVEN = """
@pytest.mark.parametrize("numbers, want", [([1, 2], 3)])
def test_sums(numbers, want):
    assert total(numbers) == want

def test_many():
    assert total([1] * 20) == 20

def test_names():
    got = total([1, 2, 3])
    assert got == 6, "wrong"
    assert total("a == b") == "a == c"

def test_truth():
    assert not total([1, 2])
"""


def failed(id_: str, line: int, message: str, details: str = "", raised_at: int = 0) -> Failure:
    path, _, name = id_.partition("::")
    frames = [Frame(path, line, name)] if line else []
    frames += [Frame("solution.py", raised_at, "total")] if raised_at else []
    return Failure(VerdictId(id_), message, details or f"E       {message.removeprefix('AssertionError: ')}\n", tuple(frames))


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        (failed("test_examples.py::test_example_1", 3, "AssertionError: assert 1 == 3"), "total([1, 2]) gave 1, expected 3"),
        (
            failed("test_examples.py::test_example_2", 6, "Failed: DID NOT RAISE ValueError"),
            "total([]) raised nothing, expected ValueError",
        ),
        (
            failed("test_examples.py::test_example_3", 10, "AssertionError: assert 0.0 == 1.5 ± 1.5e-06"),
            "total([0.5, 1]) gave 0.0, expected 1.5",
        ),
        (
            failed("test_examples.py::test_example_4", 13, "AssertionError: assert '0' == \"<class 'int'>\""),
            "total('') gave '0', expected \"<class 'int'>\"",
        ),
        (failed("test_examples.py::test_example_1", 0, "did not finish in 15 s"), "total([1, 2]) did not finish in 15 s"),
        (failed("test_examples.py::test_example_1", 0, STARVED), f"total([1, 2]): {STARVED}"),
        (
            failed(
                "test_given.py::test_sums[numbers0-3]",
                4,
                "AssertionError: assert 1 == 3",
                "E       assert 1 == 3\nE        +  where 1 = total([1, 2])\n",
            ),
            "test_sums[numbers0-3]: total([1, 2]) gave 1, expected 3",
        ),
        (
            failed(
                "test_given.py::test_many",
                7,
                "AssertionError: assert '1' == 20",
                "E  assert '1' == 20\nE  +  where '1' = total(([1] * 20))",
            ),
            "test_many: total([1] * 20) gave '1', expected 20",
        ),
        (
            failed("test_given.py::test_names", 12, "AssertionError: assert 'a == d' == 'a == c'"),
            "test_names: total('a == b') gave 'a == d', expected 'a == c'",
        ),
    ],
)
def test_the_call_what_it_gave_and_what_was_expected_are_named(failure: Failure, said: str) -> None:
    test = EXAMPLES if failure.id.startswith("test_examples") else GIVEN
    assert failures.line(failure, test, CODE) == f"{said} (solution.py, line 4)"


def test_an_exception_is_named_with_the_line_that_raised_it() -> None:
    raised = failed("test_examples.py::test_example_2", 7, "ZeroDivisionError: division by zero", "E   Zero\n", raised_at=5)
    said = "total([]) raised ZeroDivisionError: division by zero, expected ValueError (solution.py, line 5)"
    assert failures.line(raised, EXAMPLES, CODE) == said
    unreadable = failed("test_given.py", 0, "NameError: name 'x' is not defined", raised_at=2)
    assert failures.line(unreadable, GIVEN, CODE) == "test_given.py: NameError: name 'x' is not defined (solution.py, line 2)"


def test_what_is_no_call_or_no_comparison_is_told_as_it_is() -> None:
    wrong = "E       AssertionError: wrong\nE       assert [2, 3] == 6\n"
    named = failed("test_given.py::test_names", 11, "AssertionError: wrong", wrong)
    assert failures.line(named, GIVEN, CODE) == "test_names: got is [2, 3], expected 6"
    truth = failed("test_given.py::test_truth", 15, "AssertionError: assert not 3")
    assert failures.line(truth, GIVEN, CODE) == "test_truth: AssertionError: assert not 3"
    hung = failed("test_given.py::test_names", 0, "did not finish in 15 s")  # in which assertion is unknown
    assert failures.line(hung, GIVEN, CODE) == "test_names: did not finish in 15 s"


def test_the_first_assertion_of_a_test_is_its_claim() -> None:
    assert failures.assertion(GIVEN) == "total(numbers) == want"
    assert failures.assertion("def test_a():\n    total([1])\n") == ""


def test_what_is_not_python_is_no_reason_to_stop() -> None:
    wrong = failed("test_given.py::test_many", 7, "AssertionError: assert 1 == 20")
    said = "test_many: total([1] * 20) gave 1, expected 20 (solution.py, line 4)"
    assert failures.line(wrong, GIVEN, {"README.md": "# It's a sum\n", "cut.py": "def total(:\n", **CODE}) == said
    assert failures.line(wrong, "def test_many(:\n", CODE) == "test_many: AssertionError: assert 1 == 20"
    assert failures.assertion("def test_many(:\n") == ""


def test_a_method_is_not_taken_for_a_function_or_another_class_of_its_name() -> None:
    classes = "".join(f"class Test{at}:\n    def test_a(self):\n        assert total([{at}]) == 9\n\n" for at in (1, 2))
    test = f"{classes}class Test3(Test2): ...\n\ndef test_a():\n    assert total([0]) == 9\n"
    for name, subject in (("Test1::test_a", "total([1])"), ("Test2::test_a[x::y]", "total([2])"), ("test_a", "total([0])")):
        hung = failed(f"test_given.py::{name}", 0, "did not finish in 15 s")
        assert failures.line(hung, test, CODE) == f"{name}: {subject} did not finish in 15 s (solution.py, line 4)"
    inherited = failed("test_given.py::Test3::test_a", 0, "did not finish in 15 s")
    assert failures.line(inherited, test, CODE) == "Test3::test_a: did not finish in 15 s"
