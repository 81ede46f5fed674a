"""The guest's challenge of changed functions, as a process of its own, the way the sandbox runs it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent.checks.guest_bundle import guest_bundle

BASE = '''\
from typing import List

LIMIT = 10


def wrapped(function):
    def inner(*args):
        return function(*args)
    inner.__wrapped__ = function
    return inner


@wrapped
def top(values: List[int]) -> int:
    """The largest one.

    >>> top([1, 3, 2])
    3

    top([5, 4]) == 5
    """
    return min(values)


class Box:
    unit = 1

    def __init__(self, size):
        self.size = size * self.unit

    def same(self, other):
        return isinstance(other, Box) and self.size == other.size
'''
TESTS = """\
from shapes import Box, top

def test_one():
    assert top([7]) == 7

def test_many():
    assert top([1, 9, 4]) == 9

def test_box():
    assert Box(2).same(Box(2))
"""
IDS = [f"test_shapes.py::test_{name}" for name in ("one", "many", "box")]


def played(folder: Path, *variants: str, base: str = BASE, tests: str = TESTS, ids: list[str] = IDS) -> dict[str, Any]:
    (folder / "guest.zip").write_bytes(guest_bundle())
    repository = folder / "repository"
    repository.mkdir()
    (repository / "shapes.py").write_text(base)
    (repository / "test_shapes.py").write_text(tests)
    lines = base.splitlines()
    first = "@wrapped" if "@wrapped" in lines else "def top(values: List[int]) -> int:"
    functions = [["shapes.py", "top", lines.index(first) + 1]]
    if "    def same(self, other):" in lines:
        functions.append(["shapes.py", "Box.same", lines.index("    def same(self, other):") + 1])
    request = {
        "reader": "pytest", "cwd": ".", "args": ["test_shapes.py"], "red": ids[1:2], "green": [ids[0], *ids[2:]], "seconds": 80,
        "outside": 20,
        "env": {}, "path": [], "services": [], "before": [],
        "conditions": {"shuffle": None, "seed": None, "clock": None},
        "functions": functions, "documented": [["shapes.py", "top"]],
        "variants": [{"shapes.py": text} for text in (base, *variants)],
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, str(folder / "guest.zip"), "challenge"],
        cwd=repository,
        input=json.dumps(request).encode(),
        capture_output=True,
        timeout=120,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )
    told: dict[str, Any] = json.loads(done.stdout)
    assert "unavailable" not in told, told
    return told


def outcomes(variant: dict[str, Any]) -> list[str]:
    return [outcome for _, _, outcome, *_ in variant["examples"]]


@pytest.mark.long
def test_examples_are_tried_with_each_variant(tmp_path: Path) -> None:
    base, right, wrong = played(tmp_path, BASE.replace("min(", "max("), BASE.replace("min(values)", "values[-1]"))["variants"]
    assert [outcomes(variant) for variant in (base, right, wrong)] == [["broken"] * 2, ["kept"] * 2, ["broken"] * 2]


@pytest.mark.long
def test_calls_of_tests_are_repeated_with_each_variant(tmp_path: Path) -> None:
    told = played(tmp_path, BASE.replace("min(", "max("))
    calls = [(call[1], call[2]) for call in told["calls"] if not call[3] and call[0] == 0]
    assert calls == [("([1, 9, 4])", False), ("([7])", True)]
    assert sum(call[3] for call in told["calls"]) > 10
    callers = {call[0]: call[4] for call in told["calls"] if not call[3]}
    assert callers == {0: ["test_shapes.py"], 1: ["test_shapes.py"]}, "the wrapper of `top` is no caller"
    at = [call[1] for call in told["calls"]].index("([1, 9, 4])")
    assert ["9" in variant["answers"][at][1] for variant in told["variants"]] == [False, True]


def test_who_calls_is_told_of_calls_that_the_code_makes_itself(tmp_path: Path) -> None:
    base = "from typing import List\n\ndef top(values: List[int]) -> int:\n    return min(values)\n\n"
    base += "def both(values):\n    return top(values), top(values[:1])\n"
    tests = "from shapes import both, top\n\ndef test_one():\n    assert both([7]) == (7, 7)\n\n"
    tests += "def test_many():\n    assert (both([1, 9]), top([1])) == ((9, 1), 1)\n"
    told = played(tmp_path, base.replace("min", "max"), base=base, tests=tests, ids=IDS[:2])
    callers = {call[1]: call[4] for call in told["calls"] if not call[3]}
    assert callers == {"([1, 9])": ["shapes.py"], "([1])": ["shapes.py", "test_shapes.py"], "([7])": ["shapes.py"]}


@pytest.mark.long
def test_objects_keep_their_classes_when_their_code_changes(tmp_path: Path) -> None:
    changed = BASE.replace("self.size == other.size", "self.size == other.size and self.unit == 2")
    told = played(tmp_path, changed, changed.replace("unit = 1", "unit = 2"))
    at = next(n for n, call in enumerate(told["calls"]) if call[0] == 1)
    assert [variant["answers"][at][:2] for variant in told["variants"]] == [
        ["value", f'{{"number": "{n}"}}'] for n in (1, 0, 1)
    ]


def test_what_a_call_does_besides_is_told(tmp_path: Path) -> None:
    wanted = {
        "values.sort() or values[-1]": ["value", True, True],
        "str(max(values))": ["value", False, False],
        "values[5]": ["raised", None, False],
        "__import__('sys').exit(1)": ["raised", None, False],
        "__import__('random').random()": ["unsteady", None, False],
    }
    told = played(tmp_path, *(BASE.replace("min(values)", after) for after in wanted))
    at = [call[1] for call in told["calls"]].index("([1, 9, 4])")
    answers = [variant["answers"][at] for variant in told["variants"][1:]]
    assert {after: [kind, fits, mutates] for after, (kind, _, fits, mutates, *_) in zip(wanted, answers, strict=True)} == wanted
    assert answers[0][6] == "9", "as Python writes it"


def test_an_answer_that_differs_from_process_to_process_is_unsteady(tmp_path: Path) -> None:
    """A clock is such a one: it goes on between the processes of the variants."""
    told = played(
        tmp_path, BASE.replace("min(values)", "__import__('os').getpid()"), BASE.replace("min(values)", "max(values)")
    )
    at = [call[1] for call in told["calls"]].index("([1, 9, 4])")
    assert [variant["answers"][at][0] for variant in told["variants"]] == ["value", "unsteady", "unsteady"]


def test_near_calls_are_made_with_the_base_and_the_winner_and_a_refusal_is_told(tmp_path: Path) -> None:
    refusing = BASE.replace("    return min(values)", "    if len(values) > 3:\n        raise ValueError\n    return values[9]")
    told = played(tmp_path, refusing, BASE)
    texts = [text for _, text, how, _ in told["near"] if how == "beside"]
    refuses = [[answer[5] for answer in variant["near"]] for variant in told["variants"]]
    assert [each[texts.index("([1, 9, 4, 4])")] for each in refuses[:2]] == [False, True]
    assert refuses[1][texts.index("([9, 4])")] is False, "an IndexError is no refusal"
    assert refuses[2] == [], "only the base and the winner answer these"


def test_a_result_that_equals_other_values_is_told(tmp_path: Path) -> None:
    near = "class Near(int):\n    def __eq__(self, other):\n        return abs(int(self) - other) < 9\n\n\n"
    told = played(tmp_path, BASE.replace("@wrapped", f"{near}@wrapped", 1).replace("min(values)", "Near(max(values))"))
    at = [call[1] for call in told["calls"]].index("([1, 9, 4])")
    assert [variant["answers"][at][4] for variant in told["variants"]] == [False, True]


@pytest.mark.parametrize(
    ("knows", "differs"),
    [
        ("'PYTEST_CURRENT_TEST' in __import__('os').environ", True),
        ("'pyt' + 'est' in __import__('sys').modules", True),
        ("__import__('sys').argv[0] != 'app'", True),
        ("len(values) > 2", False),
    ],
)
def test_code_that_knows_that_it_is_tested_answers_differently_elsewhere(tmp_path: Path, knows: str, differs: bool) -> None:
    told = played(tmp_path, BASE.replace("min(values)", f"max(values) if {knows} else min(values)"))
    assert told["silent"] == ""
    shown = [told["calls"][at][1] for at in told["elsewhere"]]
    assert ("([1, 9, 4])" in shown) is differs, shown


@pytest.mark.long
def test_objects_that_lose_something_when_they_are_sent_are_no_sign(tmp_path: Path) -> None:
    """A dictionary of a class with an attribute of its own, which copies do not have."""
    box = "class Box(dict):\n    def __init__(self, **known):\n        super().__init__(known)\n"
    box += "        self.order = sorted(known)\n"
    box += "    def __reduce__(self):\n        return (Box, (), None, None, iter(self.items()))\n"
    base = box + "\ndef top(values: List[int]) -> int:\n    return list(values)\n"
    tests = "from shapes import Box, top\n\ndef test_many():\n    assert top(Box(b=1, a=2)) == ['a', 'b']\n"
    base = "from typing import List\n\n" + base
    change = base.replace("list(values)", "[key for key in values.order if key in values]")
    told = played(tmp_path, change, base=base, tests=tests, ids=["", "test_shapes.py::test_many"])
    assert (told["elsewhere"], told["silent"]) == ([], "")


@pytest.mark.long
def test_a_change_that_can_only_be_called_in_a_test_run_is_told(tmp_path: Path) -> None:
    right = BASE.replace("min(values)", "max(values)")
    only = "import sys\nif 'pytest' not in sys.modules:\n    raise ImportError\n"
    assert [played(tmp_path, only + right)["silent"], shutil.rmtree(tmp_path / "repository")][0] == "change"
    assert played(tmp_path, only + right, base=only + BASE)["silent"] == "base"
    shutil.rmtree(tmp_path / "repository")
    lost = right + "\n\nimport sys\nif 'pytest' not in sys.modules:\n    del top\n"
    told = played(tmp_path, lost)
    assert (told["silent"], [told["calls"][at][0] for at in told["elsewhere"]][:1]) == ("", [0]), "Box.same still answers"


@pytest.mark.long
def test_a_variant_that_hangs_exits_or_does_not_import_loses_only_its_own_answers(tmp_path: Path) -> None:
    hanging = BASE.replace("return min(values)", "while True: pass")
    dying = BASE.replace("return min(values)", "__import__('os')._exit(0)")
    told = played(tmp_path, hanging, dying, "import nothing_like_it\n" + BASE, BASE.replace("min(", "max("))
    _, hung, dead, broken, right = told["variants"]
    assert {answer[0] for answer in hung["answers"][:3]} <= {"hung", "value"}
    assert (dead, broken) == (None, None)
    assert outcomes(right) == ["kept", "kept"]


@pytest.mark.long
def test_a_change_cannot_take_back_what_docstrings_promise(tmp_path: Path) -> None:
    """Examples are those of the base, whatever a variant writes into its docstring instead."""
    wrong = BASE.replace("min(values)", "values[-1]")
    document = wrong[wrong.index('    """The largest') : wrong.index("    return values")]
    for text in (wrong.replace(document, ""), wrong.replace("    3\n", "    2\n").replace("== 5", "== 4")):
        _, variant = played(tmp_path, text)["variants"]
        assert [example[2::2] for example in variant["examples"]] == [["broken", True], ["broken", True]]
        shutil.rmtree(tmp_path / "repository")
    added = BASE.replace("min(", "max(").replace("    3\n", "    3\n    >>> top([1])\n    1\n")
    _, variant = played(tmp_path, added)["variants"]
    assert [example[2::2] for example in variant["examples"]] == [["kept", False], ["kept", False]]


@pytest.mark.long
def test_a_test_that_makes_an_examples_call_overrules_it(tmp_path: Path) -> None:
    stale = BASE.replace("top([1, 3, 2])", "top(values=[1, 9, 4])")  # whose test says 9 and not 3
    assert outcomes(played(tmp_path, stale.replace("min(", "max("), base=stale)["variants"][1]) == ["overruled", "kept"]


@pytest.mark.long
def test_a_test_that_only_the_change_lets_go_on_overrules_an_example_and_the_change_itself_does_not(tmp_path: Path) -> None:
    plain = BASE.replace("@wrapped\n", "").replace("    3\n", "    1\n")  # the example says 1
    tests = TESTS.replace("assert top([1, 9, 4]) == 9", "assert top([1, 9]) == 9\n    assert top([1, 3, 2]) == 3")
    base, right = played(tmp_path, plain.replace("min(", "max("), base=plain, tests=tests)["variants"]
    assert (outcomes(base), outcomes(right)) == (["kept", "broken"], ["overruled", "kept"])
    shutil.rmtree(tmp_path / "repository")
    inside = plain.replace("min(", "max(").replace("size * self.unit", "size * self.unit + 0 * top([1, 3, 2])")
    boxed = TESTS.replace("assert top([1, 9, 4]) == 9", "assert Box(2).size == 2\n    assert top([1, 9, 4]) == 9")
    _, forged = played(tmp_path, inside, base=plain, tests=boxed)["variants"]
    assert outcomes(forged) == ["broken", "kept"]
