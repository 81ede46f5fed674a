"""Examples become tests that mean the same; they are run here by pytest itself."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from agent.solving.contract import contract_files, example_tests, with_import
from agent.solving.draft import Draft
from agent.solving.specification import specify

CODE = """\
class Bad(Exception): ...
def add(a, b): return a + b
def half(x): return x / 2
def say(x): print(x)
def fail(x): raise Bad(x)
def note(): _seen.append(1)
def count(): return len(_seen)
def group(x): return {c: x.count(c) for c in x}
_seen = []
"""


CASES = [
    (">>> add(1, 2)\n3\n>>> half(1)\n0.5\n>>> say('x')\nx\n>>> group('ab')\n{'b': 1, 'a': 1}\n", True),
    (">>> half(0.2)\n0.1000000000001\n", True),  # floats are compared as numbers
    (">>> add(1, 2)\n4\n", False),
    (">>> say('x')\ny\n", False),
    (">>> fail(1)\nTraceback (most recent call last):\n  ...\nsolution.Bad: 1\n", True),
    (">>> add(1, 2)\nTraceback (most recent call last):\n  ...\nBad: 1\n", False),
    (">>> add(1, 2) == 3\n>>> add(1, 2) != 4\nTrue\n>>> add(1, 1) or 5\n2\n", True),
    (">>> add(1, 2) == 4\n", False),
    (">>> note()\n>>> count()\n1\n", True),
    (">>> total = add(1,\n...     2)\n>>> total + 1\n4\n", True),
    (">>> add([1], 2)\nTraceback (most recent call last):\nTypeError: no\n", True),
    (">>> add(1, 2)  # three\n3\n>>> say('x')  # it prints\nx\n>>> half(1)  # a float\n0.5\n", True),
    (">>> add(1, 2)  # not four\n4\n", False),
    (">>> add('''a\n...     b\n... ''', '')\n'a\\n    b\\n'\n", True),
    (">>> x = add(1, 2)\n", True),  # only a statement
    (">>> x = nothing_like_it()\n", False),
]


@pytest.fixture(scope="module")
def red(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The doctests of which some example fails; one pytest runs all of them, each in a file with a module of its own."""
    folder = tmp_path_factory.mktemp("examples")
    for at, (doctests, _) in enumerate(CASES):
        (folder / f"solution_{at}.py").write_text(CODE)
        (folder / f"test_{at}.py").write_text(example_tests(specify("x", doctests=doctests).examples, f"solution_{at}"))
    command = [sys.executable, "-m", "pytest", "-qrA", "-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir", folder, folder]
    env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # loading what is installed here takes longer than the tests
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=60)
    told = re.findall(r"^(PASSED|FAILED) test_(\d+)\.py::", done.stdout, re.MULTILINE)
    assert {int(at) for _, at in told} == set(range(len(CASES))), done.stdout
    return {CASES[int(at)][0] for verdict, at in told if verdict == "FAILED"}


@pytest.mark.parametrize(("doctests", "is_right"), CASES)
def test_an_example_passes_if_and_only_if_it_holds(doctests: str, is_right: bool, red: set[str]) -> None:
    assert (doctests not in red) == is_right


def test_each_drafted_example_stands_alone_with_the_statements_that_prepare_it() -> None:
    examples = specify("x", doctests=">>> a = add(1, 2)\n>>> add(a, 1)\n4\n>>> a = 5\n>>> add(a, 1)\n6\n").examples
    draft = Draft({"solution.py": "def add(a, b): ..."}, "solution.py", "add", "def add(a, b)", examples)
    files = contract_files(specify("x"), draft, confirmed=False)
    assert sorted(files) == ["test_drafted_2.py", "test_drafted_4.py"]
    assert "a = add(1, 2)\n    assert add(a, 1) == 4" in files["test_drafted_2.py"]
    assert "a = add(1, 2)\n    a = 5\n    assert add(a, 1) == 6" in files["test_drafted_4.py"]
    assert sorted(contract_files(specify("x"), draft, confirmed=True)) == ["test_examples.py"]


def test_a_result_without_a_value_is_compared_as_it_is_shown() -> None:
    draft = Draft({"solution.py": "def f(x): ..."}, "solution.py", "f", "def f(x)", ())
    (test,) = contract_files(specify("x", doctests=">>> f(1)\n{[]: 1}\n"), draft, confirmed=False).values()
    assert "assert _printed(lambda: f(1)) == '{[]: 1}'" in test


def test_tests_get_the_import_that_they_lack() -> None:
    assert with_import("def test_a():\n    assert add(1, 2) == 3", "calc.sums", "add").startswith("from calc.sums import add\n")
    known = "from solution import add\n\ndef test_a():\n    assert add(1, 2) == 3"
    assert with_import(known, "solution", "add") == f"{known}\n"
