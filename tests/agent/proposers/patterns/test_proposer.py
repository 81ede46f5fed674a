# ruff: noqa: E501 - sources of tiny repositories
"""The whole rung on tiny repositories: real guest, real pytest, real processes."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from agent.edits.changes import digest
from agent.proposer import Proposal, Situation
from agent.proposers.patterns.proposer import PatternsProposer
from tests.agent.stage import situation
from tests.agent.workbench import sandbox_with

Heal = Callable[..., Awaitable[tuple[Proposal, Situation]]]


@pytest.fixture
async def heal(tmp_path: Path) -> AsyncIterator[Heal]:
    async def run(files: dict[str, str], **options: object) -> tuple[Proposal, Situation]:
        sandbox = await closing.enter_async_context(sandbox_with(tmp_path, files))
        case = await situation(sandbox, **options)  # type: ignore[arg-type]
        proposer = PatternsProposer()
        assert proposer.can_help(case) is None
        proposal = await proposer.propose(case)
        for path, text in files.items():
            assert await sandbox.base.read(path) == text.encode(), "the base is untouched"
        return proposal, case

    async with AsyncExitStack() as closing:
        yield run


def afters(proposal: Proposal) -> list[str | None]:
    return [c.edits[0].after for c in proposal.candidates]


@pytest.mark.long
async def test_a_method_is_healed_and_its_comments_and_line_ends_are_kept(heal: Heal) -> None:
    code = "class Box:\r\n    def fits(self, n):  # ü\r\n        return n  <  10  # bound\r\n"
    tests = "import pytest\nfrom box import Box\n\n@pytest.mark.parametrize('n', [9, 10])\ndef test_in(n):\n    assert Box().fits(n)\n\ndef test_out():\n    assert not Box().fits(11)\n"
    proposal, case = await heal({"box.py": code, "test_box.py": tests})
    assert code.replace("<", "<=") in afters(proposal)
    assert proposal.candidates[0].rung == "patterns"
    assert "in `Box.fits` (box.py:3)" in proposal.candidates[0].title
    assert proposal.plausible >= 1
    again = await PatternsProposer().propose(replace(case, tried=frozenset(digest(c.edits) for c in proposal.candidates)))
    assert not set(afters(again)) & set(afters(proposal))


@pytest.mark.long
async def test_a_change_that_breaks_a_passing_test_is_not_handed_on(heal: Heal) -> None:
    code = "def f(a, b):\n    return a - b\n"
    tests = "from m import f\n\ndef test_red():\n    assert f(2, 2) == 4\n\ndef test_green():\n    assert f(0, 0) == 0\n\ndef test_more():\n    assert f(3, 0) == 3\n"
    proposal, _ = await heal({"m.py": code, "test_m.py": tests})
    assert "def f(a, b):\n    return a + b\n" in afters(proposal)
    assert "def f(a, b):\n    return a * b\n" not in afters(proposal)  # test_more would break


@pytest.mark.parametrize(
    ("code", "fixed"),
    [
        (
            "import functools\n\ndef twice(f):\n    @functools.wraps(f)\n    def inner(*a):\n        return f(*a) * 3\n    return inner\n\n@twice\ndef f(x):\n    return x\n",
            "* 2",
        ),
        ("class A:\n    @staticmethod\n    def g(x):\n        return x * 3\n\ndef f(x):\n    return A.g(x)\n", "* 2"),
        (
            "class B:\n    def g(self, x):\n        return x\n\nclass A(B):\n    def g(self, x):\n        return super().g(x) * 3\n\ndef f(x):\n    return A().g(x)\n",
            "* 2",
        ),
        ("FACTOR = 3\n\ndef f(x):\n    return x * FACTOR\n", "FACTOR = 2"),
        ("def f(x, factor=3):\n    return x * factor\n", "factor=2"),
        ("def f(x):\n    def g():\n        yield x * 3\n    return next(g())\n", "* 2"),
    ],
    ids=["decorator", "staticmethod", "super", "module level", "default", "generator in a function"],
)
@pytest.mark.long
async def test_the_change_reaches_the_code_wherever_it_stands(heal: Heal, code: str, fixed: str) -> None:
    tests = "from m import f\n\ndef test_f():\n    assert f(7) == 14\n\ndef test_g():\n    assert f(5) == 10\n"
    proposal, _ = await heal({"m.py": code, "test_m.py": tests})
    assert any(fixed in (after or "") for after in afters(proposal))


@pytest.mark.long
async def test_fixtures_and_test_classes_are_run_as_pytest_runs_them(heal: Heal) -> None:
    code = "def f(path):\n    return len(path.read_text()) - 1\n"
    tests = (
        "import unittest\nimport pytest\nfrom m import f\n\n@pytest.fixture\ndef file(tmp_path):\n    p = tmp_path / 'x'\n    p.write_text('abc')\n    yield p\n\n"
        "class TestF:\n    @pytest.fixture(autouse=True)\n    def start(self, monkeypatch):\n        monkeypatch.setenv('A', '1')\n\n    def test_f(self, file, capsys):\n        assert f(file) == 3\n\n"
        "class Old(unittest.TestCase):\n    def setUp(self):\n        import pathlib\n        self.here = pathlib.Path(__file__)\n\n    def test_old(self):\n        self.assertEqual(f(self.here), len(self.here.read_text()))\n"
    )
    proposal, case = await heal({"m.py": code, "test_m.py": tests})
    assert len(case.oracle.must_turn["tests"]) == 2
    assert proposal.plausible >= 1
    assert any("len(path.read_text())\n" in (after or "") for after in afters(proposal))


@pytest.mark.parametrize(
    ("addopts", "autoload"),
    [
        ("-n 2", True),
        pytest.param("--cov=m", True, marks=pytest.mark.long),
        pytest.param("-p no:xdist", True, marks=pytest.mark.long),
        pytest.param("", False, marks=pytest.mark.long),
        ("-p xdist -n 2", False),
    ],
)
async def test_plugins_that_distribute_or_measure_are_out_of_the_way_loaded_or_not(
    heal: Heal, addopts: str, autoload: bool
) -> None:
    pytest.importorskip("xdist", reason="needs pytest-xdist beside pytest")
    env = {} if autoload else {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    files = {
        "m.py": "def f(a, b):\n    return a - b\n",
        "test_m.py": "from m import f\n\ndef test_f():\n    assert f(2, 3) == 5\n",
        "pytest.ini": f"[pytest]\naddopts = {addopts}\n",
    }
    proposal, _ = await heal(files, env=env)
    assert "def f(a, b):\n    return a + b\n" in afters(proposal)


@pytest.mark.long
async def test_a_search_that_found_nothing_is_not_begun_again(heal: Heal) -> None:
    code = "def f(a):\n    return [a, a, a, a, a, a, a, a]\n"
    tests = (
        "import time\nfrom m import f\n\ndef test_f():\n    time.sleep(0.3)\n    assert f(1) == 'no small change makes this'\n"
    )
    proposal, _ = await heal({"m.py": code, "test_m.py": tests}, seconds=3.0)
    assert not proposal.candidates
    assert proposal.exhausted


@pytest.mark.parametrize("unittests", [True, False], ids=["beside a doctest", "a doctest alone"])
async def test_plain_unittest_is_searched_too(heal: Heal, unittests: bool) -> None:
    code = 'def f(a, b):\n    """\n    >>> f(2, 3)\n    5\n    """\n    return a - b\n'
    tests = (
        "import doctest, unittest\nimport m\n\ndef load_tests(loader, tests, pattern):\n"
        "    tests.addTests(doctest.DocTestSuite(m))\n    return tests\n"
    )
    if unittests:
        tests += "\nclass T(unittest.TestCase):\n    def test_f(self):\n        self.assertEqual(m.f(2, 3), 5)\n"
    proposal, _ = await heal({"m.py": code, "test_m.py": tests}, command="python -m unittest", reader="unittest")
    assert code.replace("a - b", "a + b") in afters(proposal)


async def test_unittest_that_starts_in_a_folder_is_searched_too(heal: Heal) -> None:
    """As in `discover`, whose start folder is no package but on the import path."""
    code = "def f(a, b):\n    return a - b\n"
    tests = "import unittest\nimport m\n\nclass T(unittest.TestCase):\n    def test_f(self):\n        self.assertEqual(m.f(2, 3), 5)\n"
    files = {"m.py": code, "checks/unit/test_m.py": tests}
    proposal, _ = await heal(files, command="python -m unittest discover -s checks/unit", reader="unittest")
    assert code.replace("a - b", "a + b") in afters(proposal)


@pytest.mark.long
async def test_candidates_that_hang_exit_crash_or_flood_only_lose_their_own_try(heal: Heal) -> None:
    code = (
        "import os, sys, threading, time\n\ndef f(n):\n    i = 0\n    if n < 0:\n        os._exit(0)\n    if n == 99:\n        os.kill(os.getpid(), 11)\n"
        "    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
        "    while i < n - 1:\n        i += 1\n        print('x' * 1000)\n    if n > 50:\n        sys.exit(0)\n    return i\n"
    )
    tests = "from m import f\n\ndef test_f():\n    assert f(5) == 5\n\ndef test_g():\n    assert f(3) == 3\n"
    proposal, _ = await heal({"m.py": code, "test_m.py": tests}, seconds=25.0)
    assert code.replace("i < n - 1", "i <= n - 1") in afters(proposal)


@pytest.mark.long
async def test_two_bugs_in_one_function_are_healed_together_and_that_is_trusted_less(heal: Heal) -> None:
    code = "def f(a, b):\n    if a < 0:\n        return a * 3\n    return b // 2\n"
    tests = "from m import f\n\ndef test_a():\n    assert f(-2, 3) == -5\n    assert f(-7, 3) == -10\n\ndef test_b():\n    assert f(3, 9) == 18\n    assert f(0, 7) == 14\n"
    proposal, _ = await heal({"m.py": code, "test_m.py": tests})
    assert code.replace("a * 3", "a - 3").replace("b // 2", "b * 2") in afters(proposal)
    assert all(c.prior < 0.3 for c in proposal.candidates)


@pytest.mark.long
async def test_what_one_try_leaves_in_the_process_does_not_spoil_the_next(heal: Heal) -> None:
    code = "KNOWN = {}\n\ndef fib(n):\n    if n in KNOWN:\n        return KNOWN[n]\n    value = n if n < 2 else fib(n - 1) + fib(n - 3)\n    KNOWN[n] = value\n    return value\n"
    tests = "import m\n\ndef test_fib():\n    assert m.fib(9) == 34\n"
    proposal, _ = await heal({"m.py": code, "test_m.py": tests})
    assert code.replace("n - 3", "n - 2") in afters(proposal)


@pytest.mark.long
async def test_arguments_that_a_test_lends_are_the_same_for_every_try(heal: Heal) -> None:
    code = "def biggest(items):\n    items.sort()\n    return items.pop(0)\n"
    tests = "import pytest\nfrom m import biggest\n\n@pytest.mark.parametrize('items, wanted', [([3, 1, 2], 3), ([5, 9, 4], 9)])\ndef test_biggest(items, wanted):\n    assert biggest(items) == wanted\n"
    proposal, _ = await heal({"m.py": code, "test_m.py": tests})
    assert code.replace("pop(0)", "pop(-1)") in afters(proposal) or code.replace("pop(0)", "pop()") in afters(proposal)


@pytest.mark.long
async def test_what_the_docstring_promises_decides_between_changes_that_pass(heal: Heal) -> None:
    code = 'def f(a, b):\n    """Multiply.\n\n    >>> f(3, 4)\n    12\n    """\n    return a - b\n'
    tests = "from m import f\n\ndef test_f():\n    assert f(2, 2) == 4\n"
    proposal, _ = await heal({"m.py": code, "test_m.py": tests})
    assert afters(proposal)[0] == code.replace("a - b", "a * b")
    assert code.replace("a - b", "a + b") in afters(proposal)[1:]


@pytest.mark.long
async def test_a_module_that_cannot_be_imported_is_searched_with_fresh_imports(heal: Heal) -> None:
    code = "NAMES = ['a', 'b', 'c']\nLAST = NAMES[3]\n\ndef f():\n    return LAST\n"
    tests = "from m import f\n\ndef test_f():\n    assert f() == 'c'\n"
    proposal, case = await heal({"m.py": code, "test_m.py": tests})
    assert set(case.oracle.must_turn["tests"]) == {"test_m.py"}
    assert afters(proposal)[0] in (code.replace("NAMES[3]", "NAMES[2]"), code.replace("NAMES[3]", "NAMES[-1]"))


@pytest.mark.long
async def test_a_loop_without_end_is_searched_too(heal: Heal) -> None:
    code = "def digits(n):\n    count = 0\n    while n:\n        count += n % 8\n    return count\n"
    tests = "from m import digits\n\ndef test_digits():\n    assert digits(0o1234) == 10\n"
    proposal, _ = await heal({"m.py": code, "test_m.py": tests}, timeout=8.0)
    assert code.replace("n % 8", "n % 8\n        n //= 8") in afters(proposal)


async def test_coroutines_are_searched(heal: Heal) -> None:
    code = "import asyncio\n\nasync def g(x):\n    await asyncio.sleep(0)\n    return x\n\nasync def f(x):\n    value = g(x)\n    return value\n"
    tests = "import asyncio\nfrom m import f\n\ndef test_f():\n    assert asyncio.run(f(3)) == 3\n"
    proposal, _ = await heal({"m.py": code, "test_m.py": tests})
    assert code.replace("= g(x)", "= await g(x)") in afters(proposal)


@pytest.mark.long
async def test_doctests_are_searched(heal: Heal) -> None:
    code = 'def f(a, b):\n    """\n    >>> f(2, 3)\n    5\n    """\n    return a - b\n'
    proposal, _ = await heal({"m.py": code, "pytest.ini": "[pytest]\naddopts = --doctest-modules\n"})
    assert code.replace("a - b", "a + b") in afters(proposal)


@pytest.mark.long
async def test_the_note_tells_how_fast_it_was(heal: Heal) -> None:
    proposal, _ = await heal(
        {"m.py": "def f(a, b):\n    return a - b\n", "test_m.py": "from m import f\n\ndef test_f():\n    assert f(2, 3) == 5\n"}
    )
    assert "in one process (" in proposal.note
    assert "in separate forks (" in proposal.note


@pytest.mark.long
async def test_an_argument_gets_the_form_that_the_types_seen_at_run_time_ask_for(heal: Heal) -> None:
    code = "def spread(a):\n    return max(a) - min(a)\n"
    tests = "from m import spread\n\ndef test_spread():\n    assert spread(iter([4, 9, 5])) == 5\n\ndef test_more():\n    assert spread(iter([3, 1, 8])) == 7\n"
    proposal, _ = await heal({"m.py": code, "test_m.py": tests})
    assert code.replace("    return", "    a = list(a)\n    return") in afters(proposal)


@pytest.mark.parametrize("path", ["m.py", "guide.md"])
async def test_examples_that_the_command_asks_for_are_searched(heal: Heal, path: str) -> None:
    code = "def f(a, b):\n    return a - b\n"
    example = ">>> from m import f\n>>> f(2, 3)\n5\n"
    text = f'"""Sums.\n\n{example}"""\n\n{code}' if path == "m.py" else example
    files = {"m.py": code, path: text, "test_m.py": "from m import f\n\ndef test_f():\n    assert f(1, 1) == 2\n"}
    proposal, _ = await heal(files, command="python -m pytest -q --doctest-modules --doctest-glob=*.md")
    assert "cannot run" not in proposal.note
    assert files["m.py"].replace("a - b", "a + b") in afters(proposal)


async def test_an_example_can_be_tried_with_every_change(heal: Heal) -> None:
    """The runner of examples clears their names after each run."""
    code = 'KINDS = 7\n\ndef f(a, b):\n    """\n    >>> f(2, 3)\n    6\n    >>> KINDS\n    7\n    """\n    return a * a\n'
    files = {"m.py": code, "test_m.py": "from m import f\n\ndef test_f():\n    assert f(4, 5) == 20\n"}
    proposal, _ = await heal(files, command="python -m pytest -q --doctest-modules")
    assert code.replace("a * a", "a * b") in afters(proposal)


async def test_a_failing_test_that_the_search_cannot_run_is_left_to_the_verification(heal: Heal) -> None:
    specs = """\
import pytest

def pytest_addoption(parser):
    parser.addoption("--specs", action="store_true")

def pytest_collect_file(file_path, parent):
    if file_path.suffix == ".spec" and parent.config.getoption("specs"):
        return Spec.from_parent(parent, path=file_path)

class Spec(pytest.File):
    def collect(self):
        yield Row.from_parent(self, name="row")

class Row(pytest.Item):
    def runtest(self):
        from m import f
        assert f(4, 4) == 8
"""
    files = {"conftest.py": specs, "a.spec": "", "m.py": "def f(a, b):\n    return a - b\n"}
    files["test_m.py"] = "from m import f\n\ndef test_f():\n    assert f(1, 1) == 2\n"
    proposal, _ = await heal(files, command="python -m pytest -q --specs")
    assert "1 failing test cannot run in the search's reused process" in proposal.note
    assert files["m.py"].replace("a - b", "a + b") in afters(proposal)
