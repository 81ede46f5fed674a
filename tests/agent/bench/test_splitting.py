"""One `check` function becomes tests that stand alone and say the same."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable

import pytest

from agent.bench.humanevalfix import NoTests, SplitTests, split_check

SOURCE = "import math\n\ndef helper(x):\n    return x + 1\n\ndef area(r):\n    return math.pi * r * r\n"


def split(text: str, source: str = SOURCE, entry: str = "area") -> SplitTests:
    return split_check(text, "solution", source, entry)


def outcomes(file: SplitTests, source: str = SOURCE) -> dict[str, bool]:
    """Which of the tests pass, each in a module of its own."""
    module = types.ModuleType("solution")
    exec(source, module.__dict__)
    sys.modules["solution"] = module
    passed = {}
    try:
        for name in file.tests:
            space: dict[str, Callable[[], None]] = {}
            try:
                exec(file.text([name]), space)
                space[name]()
                passed[name] = True
            except (AssertionError, TypeError, NameError):
                passed[name] = False
    finally:
        del sys.modules["solution"]
    return passed


def test_each_assertion_is_a_test_and_a_loop_stays_whole() -> None:
    file = split(
        "def check(candidate):\n"
        "    assert candidate(0) == 0\n"
        "    assert (\n        candidate(1)\n        == 3\n    ), 'too small'\n"
        "    for r in range(3):\n        assert candidate(r) >= r\n"
        "    try:\n        candidate('x')\n        assert False\n    except TypeError:\n        pass\n"
        "\ncheck(area)\n"
    )
    assert list(file.tests) == ["test_1", "test_2", "test_3", "test_4"]
    assert outcomes(file) == {"test_1": True, "test_2": False, "test_3": True, "test_4": True}


def test_a_test_keeps_the_set_up_that_it_needs_and_no_other() -> None:
    file = split(
        "def check(area):\n"
        "    import copy\n"
        "    radius = 2\n"
        "    broken = area(None)\n"
        "    twice = copy.copy(radius) * 2\n"
        "    assert area(twice) > 50\n"
        "    assert broken is None\n"
        "    radius += 1\n"
        "    assert radius == 3 and area(radius) > 28\n"
    )
    assert "broken" not in file.tests["test_1"]
    assert outcomes(file) == {"test_1": True, "test_2": False, "test_3": True}


def test_helpers_that_assert_and_names_of_the_module_under_test_are_there() -> None:
    file = split(
        "import random\n\nLIMIT = 4\n\n"
        "def near(one, other):\n    assert math.fabs(one - other) < 1e-6\n\n"
        "def deeper(f):\n    near(f(0), 0)\n\n"
        "def check(f):\n"
        "    near(f(1), math.pi)\n"
        "    deeper(f)\n"
        "    assert helper(LIMIT) == 5\n"
        "    assert random.Random(1).random() < 1\n"
    )
    assert list(outcomes(file).values()) == [True, True, True, True]
    assert len(file.tests) == 4


def test_a_check_that_ends_with_a_call_tests_by_that_call() -> None:
    file = split("def check(f):\n    points = [1, 2]\n    list(map(f, points))\n")
    assert outcomes(file) == {"test_1": True}
    assert outcomes(split("def check(f):\n    points = [None]\n    list(map(f, points))\n")) == {"test_1": False}


def test_the_file_with_some_tests_holds_only_those() -> None:
    file = split("def check(f):\n    assert f(0) == 0\n    assert f(1) > 3\n    assert f(2) > 12\n")
    text = file.text(["test_1", "test_3"])
    assert "test_2" not in text
    assert text.count("def test_") == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def check(f:\n", "not Python"),
        ("assert area(0) == 0\n", "no function `check`"),
        ("def check():\n    assert True\n", "no function `check`"),
        ("def check(f):\n    pass\n", "empty"),
    ],
)
def test_what_cannot_be_split_is_said(text: str, said: str) -> None:
    with pytest.raises(NoTests, match=said):
        split(text)
