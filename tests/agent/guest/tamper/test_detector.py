"""What a run reports as tampering with what runs its tests, and what it does not."""

from __future__ import annotations

from textwrap import dedent

import pytest

from agent.checks.oracle import MARKS_LIMIT, tampering
from agent.contract.proposal import FileChange
from agent.contract.verdicts import CheckRun, Reader
from tests.agent.conftest import RunCheck

TEST = "import unittest\nimport pkg\nclass T(unittest.TestCase):\n    def test_1(self): assert pkg.f(1) == 1\n"


def of_files(run: CheckRun) -> list[str]:
    """The marks that name a file of the repository."""
    # A comparison that is always true makes the canary pass too, and then no result of the run counts.
    assert run.told_all or run.ending == "crashed", run.output
    return sorted(mark for mark in run.marks if not mark.startswith(":"))


@pytest.mark.parametrize(("command", "reader"), [("pytest", "pytest"), ("python -m unittest", "unittest")])
async def test_ordinary_code_and_what_tests_do_leave_no_mark(run_check: RunCheck, command: str, reader: Reader) -> None:
    product = dedent("""
        import collections, contextlib, dataclasses, enum, functools, inspect, logging, re, traceback, typing, warnings
        P = collections.namedtuple("P", "x y")
        class E(enum.Enum):
            A = 1
        @dataclasses.dataclass(order=True)
        class D:
            x: int = 1
        class V:
            def __init__(self, x): self.x = x
            def __eq__(self, other): return isinstance(other, V) and self.x == other.x
            def __hash__(self): return hash(self.x)
            def __contains__(self, item): return item in self.x
        class S(str):
            def __eq__(self, other): return str.__eq__(self, other)
            __hash__ = str.__hash__
        log = logging.getLogger(__name__)
        del __name__
        @functools.lru_cache(None)
        def f(x):
            log.info("asked")
            inspect.signature(f)
            try:
                raise ValueError(x)
            except ValueError:
                traceback.format_exc()
            warnings.warn("old", DeprecationWarning, stacklevel=2)
            with open("data.txt") as file:
                file.read()
            return D(x).x
    """)
    tests = dedent("""
        import inspect, sys, unittest
        from unittest import mock
        import pkg
        class T(unittest.TestCase):
            def test_1(self):
                with mock.patch("math.isclose", return_value=True), mock.patch.object(unittest.TestCase, "assertIn"):
                    assert pkg.f(1) == 1
                assert inspect.getsource(T) and sys._getframe()
            def test_2(self): self.assertEqual(pkg.V(1), pkg.V(1))
    """)
    run = await run_check({"pkg.py": product, "data.txt": "", "test_a.py": tests}, command, reader)
    assert (run.ending, run.exit_code) == ("finished", 0), run.output
    assert [mark for mark in of_files(run) if not mark.startswith("test_a.py:")] == []


@pytest.mark.parametrize(("command", "reader"), [("pytest", "pytest"), ("python -m unittest", "unittest")])
async def test_tampering_is_reported_with_the_file_that_does_it(run_check: RunCheck, command: str, reader: Reader) -> None:
    product = dedent("""
        import math, operator, sys
        math.isclose = lambda *_: True
        operator.gt = operator.lt
        class Any:
            def __eq__(self, other): return True
        def f(x):
            sys._getframe(1)
            open("test_a.py").close()
            return x
    """)
    run = await run_check({"pkg.py": product, "test_a.py": TEST}, command, reader)
    assert run.exit_code == 0, run.output
    assert of_files(run) == [
        "pkg.py: Any.__eq__ accepts everything",
        "pkg.py: math.isclose",
        "pkg.py: open test_a.py",
        "pkg.py: sys._getframe",
    ]
    assert ": operator.gt" in run.marks


async def test_no_frame_is_reached_without_a_mark_at_the_recursion_limit(run_check: RunCheck) -> None:
    """The mark fails there at first, and then the access must fail too. Afterwards marks are made as before."""
    product = dedent("""
        import sys
        frames = []
        def deep():
            try:
                deep()
            except RecursionError:
                pass
            if not frames:
                try:
                    frames.append(sys._getframe(0))
                except RecursionError:
                    pass
        def f(x):
            deep()
            sys.setprofile(None)
            return x if frames else 0
    """)
    run = await run_check({"pkg.py": product, "test_a.py": TEST})
    assert run.exit_code == 0, run.output
    assert of_files(run) == ["pkg.py: sys._getframe", "pkg.py: sys.setprofile"]


async def test_a_path_with_methods_of_its_own_is_seen(run_check: RunCheck) -> None:
    product = dedent("""
        class Path(str):
            def rfind(self, *_): raise ValueError
            rsplit = startswith = endswith = rfind
        class Raw(bytes):
            def decode(self, *_): raise ValueError
        def f(x):
            open(Path("test_a.py")).close()
            open(Raw(b"test_b.py")).close()
            return x
    """)
    run = await run_check({"pkg.py": product, "test_a.py": TEST, "test_b.py": ""})
    assert run.exit_code == 0, run.output
    assert of_files(run) == ["pkg.py: open test_a.py", "pkg.py: open test_b.py"]


@pytest.mark.parametrize(("command", "reader"), [("pytest", "pytest"), ("python -m unittest", "unittest")])
async def test_what_a_hanging_test_did_is_reported(run_check: RunCheck, command: str, reader: Reader) -> None:
    product = "def f(x):\n    while eval('True'): pass\n"
    run = await run_check({"pkg.py": product, "test_a.py": TEST}, command, reader, timeout=4)
    assert (run.ending, run.told_all) == ("timeout", False), run.output
    assert run.marks == {"pkg.py: compile", "pkg.py: exec"}


async def test_a_run_leaves_nothing_for_the_next(run_check: RunCheck) -> None:
    leaving = dedent("""
        import os, site, sys, tempfile
        FOLDERS = [tempfile.gettempdir(), os.path.expanduser("~"), "/tmp", "/dev/shm", "/var/tmp", ".", *sys.path]
        FOLDERS += [*site.getsitepackages(), site.getusersitepackages(), os.path.dirname(sys.executable)]
        FILES = [os.path.join(folder, "left-behind") for folder in FOLDERS if not folder.endswith(".zip")]
        found = [path for path in FILES if os.path.exists(path)]
        for path in FILES:
            try:
                open(path, "w").close()
            except OSError:
                pass
        def f(x): return found or x
    """)
    files = {"pkg.py": leaving, "test_a.py": TEST}
    for _ in range(2):
        run = await run_check(files)
        assert run.exit_code == 0, run.output


def ran(*marks: str) -> CheckRun:
    return CheckRun("tests", "finished", {}, (), 0.0, marks=frozenset(marks), told_all=True)


def test_only_what_a_change_adds_is_tampering() -> None:
    edits = (FileChange("a.py", "x", "y"),)
    untold = CheckRun("tests", "crashed", {}, (), 0.0)
    assert tampering(ran("a.py: exec"), ran("a.py: exec"), edits) == ()
    assert tampering(ran(), ran("a.py: exec", ": builtins.len"), edits) == (": builtins.len", "a.py: exec")
    assert tampering(ran(), ran("b.py: exec"), edits) == ()
    assert tampering(untold, ran("a.py: exec", ": builtins.len"), edits) == ("a.py: exec",)
    assert tampering(ran(), untold, edits) == ()


def test_a_full_list_of_marks_hides_what_a_change_adds() -> None:
    edits = (FileChange("a.py", "x", "y"),)
    many = [f"b.py: exec {n}" for n in range(MARKS_LIMIT)]
    assert tampering(ran(*many[1:]), ran(*many[1:]), edits) == ()
    assert tampering(ran(*many[1:]), ran(*many[1:], "a.py: exec"), edits) == ("a.py: exec",)
    (why,) = tampering(ran(*many), ran(*many), edits)
    assert "cannot be recognized" in why


async def test_a_run_reports_a_full_list_of_marks(run_check: RunCheck) -> None:
    files = {f"pkg{n}.py": "exec('X = 1')\n" for n in range(MARKS_LIMIT)} | {"pkg.py": "def f(x): return x\n"}
    files["test_a.py"] = TEST + "\n".join(f"import pkg{n}" for n in range(MARKS_LIMIT))
    assert len((await run_check(files)).marks) >= MARKS_LIMIT
