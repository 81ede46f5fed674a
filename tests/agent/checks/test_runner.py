import json
import textwrap
from dataclasses import replace

import pytest

from agent.checks.runner import WATCH, Runner
from agent.contract.verdicts import Check, Frame, Reader, Verdict, VerdictId
from sandbox.base import Command, Completed, Sandbox
from tests.agent.conftest import Repository, RunCheck

pytestmark = pytest.mark.asyncio(loop_scope="session")

PASSED, FAILED, ERROR, SKIPPED = Verdict.PASSED, Verdict.FAILED, Verdict.ERROR, Verdict.SKIPPED


REPORT = json.dumps(
    {
        "ending": "finished", "exit_code": 0, "seconds": 1, "observed": True, "verdicts": {"t": ["passed", 0]},
        "failures": {}, "output": "", "notes": [],
    }
).encode()  # fmt: skip


class Forger:
    """A workspace whose supervisor was replaced: answers with `stdout`, `{nonce}` filled in."""

    root, python = "/repo", "/env/bin/python"

    def __init__(self, stdout: bytes) -> None:
        self.stdout = stdout

    async def run(self, command: Command) -> Completed:
        nonce = json.loads(command.stdin)["nonce"].encode()
        return Completed(0, self.stdout.replace(b"{nonce}", nonce), b"", 1.0)


def code(text: str) -> str:
    return textwrap.dedent(text).lstrip("\n")


CALC = code("""
    def add(a, b):
        return a - b
""")


async def test_each_kind_of_pytest_verdict_is_told(run_check: RunCheck) -> None:
    run = await run_check(
        {
            "calc.py": CALC,
            "tests/conftest.py": "import sys, pathlib\nsys.path.insert(0, str(pathlib.Path(__file__).parents[1]))\n",
            "tests/test_calc.py": code("""
                import pytest, unittest
                from calc import add

                def test_passes(): assert add(0, 0) == 0
                def test_fails(): assert add(1, 2) == 3
                @pytest.mark.parametrize("a", [0, 1, "x/y ü"])
                def test_each(a): assert a == 0
                @pytest.fixture
                def broken(): raise RuntimeError("no fixture")
                def test_setup(broken): pass
                @pytest.fixture
                def messy():
                    yield
                    raise RuntimeError("no way out")
                def test_teardown(messy): pass
                @pytest.mark.xfail
                def test_expected(): assert False
                @pytest.mark.xfail(strict=True)
                def test_strict(): pass
                @pytest.mark.skip
                def test_skipped(): pass
                class TestClass:
                    def test_method(self): add(1, "x")
                class TestCase(unittest.TestCase):
                    def test_case(self): self.assertEqual(1, 1)
            """),
        }
    )
    name = "tests/test_calc.py::"
    assert run.ending == "finished"
    assert run.exit_code == 1
    assert dict(run.verdicts) == {
        f"{name}test_passes": PASSED,
        f"{name}test_fails": FAILED,
        f"{name}test_each[0]": PASSED,
        f"{name}test_each[1]": FAILED,
        f"{name}test_each[x/y \\xfc]": FAILED,
        f"{name}test_setup": ERROR,
        f"{name}test_teardown": ERROR,
        f"{name}test_expected": SKIPPED,
        f"{name}test_strict": FAILED,
        f"{name}test_skipped": SKIPPED,
        f"{name}TestClass::test_method": FAILED,
        f"{name}TestCase::test_case": PASSED,
    }
    failures = {failure.id: failure for failure in run.failures}
    assert failures.keys() == run.red
    assert failures[f"{name}test_fails"].message.startswith("AssertionError: assert -1 == 3")
    assert "def test_fails" in failures[f"{name}test_fails"].details
    assert failures[f"{name}TestClass::test_method"].frames[-1] == Frame("calc.py", 2, "add")
    assert "no fixture" in failures[f"{name}test_setup"].message


async def test_a_file_that_cannot_be_collected_is_an_error_with_its_cause_and_hides_no_other(run_check: RunCheck) -> None:
    files = {"pkg.py": "import gone\n", "test_a.py": "import pkg\ndef test_a(): pass\n", "test_b.py": "def test_b(): pass\n"}
    run = await run_check(files)
    assert dict(run.verdicts) == {"test_a.py": ERROR, "test_b.py::test_b": PASSED}
    (failure,) = run.failures
    assert failure.message == "ModuleNotFoundError: No module named 'gone'"
    assert failure.frames == (Frame("test_a.py", 1, "<module>"), Frame("pkg.py", 1, "<module>"))

    healed = await run_check({**files, "pkg.py": ""}, only=frozenset({"test_a.py"}))
    assert dict(healed.verdicts) == {"test_a.py": PASSED, "test_a.py::test_a": PASSED}


async def test_what_the_sandbox_lacks_skips_only_the_tests_that_need_it(sandbox: Sandbox, repository: Repository) -> None:
    workspace = await repository(
        {
            "test_whole.py": "import bson.codec\ndef test(): pass\n",
            "test_cases.py": "CASES = open('vendor/data/cases').read()\ndef test(): pass\n",
            "test_each.py": code("""
                import pytest
                @pytest.fixture
                def data(): return open("vendor/data/a")
                def test_a(data): pass
                def test_b():
                    try: import bson
                    except ImportError as error: raise RuntimeError("install bson") from error
                def test_c(): import bsonic
                def test_d(): open("vendor/other")
                def test_e(): assert False, "No module named 'bson'"
            """),
        }
    )
    check = Check("tests", "python -m pytest -q", "pytest", absent=("bson", "vendor", "vendor/data/"))
    run = await Runner(sandbox).run(workspace, check)
    skipped = {"test_whole.py", "test_cases.py", "test_each.py::test_a", "test_each.py::test_b"}
    assert {id_ for id_, verdict in run.verdicts.items() if verdict is SKIPPED} == skipped
    assert run.red == {f"test_each.py::test_{name}" for name in "cde"}
    assert {failure.id for failure in run.failures} == run.red
    run = await Runner(sandbox).run(workspace, replace(check, command="python -m pytest -q test_whole.py test_each.py::test_a"))
    assert not run.red


async def test_a_syntax_error_names_its_line(run_check: RunCheck) -> None:
    run = await run_check({"pkg.py": "x = 1\ndef f(:\n", "test_a.py": "import pkg\n"})
    (failure,) = run.failures
    assert failure.id == "test_a.py"
    assert failure.message.startswith("SyntaxError: ")
    assert failure.frames[-1] == Frame("pkg.py", 2, "")


async def test_a_conftest_that_cannot_be_imported_is_an_error_that_heals(run_check: RunCheck) -> None:
    files = {"tests/conftest.py": "import gone\n", "tests/test_a.py": "def test_a(): pass\n"}
    run = await run_check(files, "pytest tests")
    assert dict(run.verdicts) == {"tests/conftest.py": ERROR}
    assert "gone" in run.failures[0].message
    healed = await run_check({**files, "tests/conftest.py": ""}, "pytest tests", only=frozenset({"tests/conftest.py"}))
    assert dict(healed.verdicts) == {"tests/conftest.py": PASSED, "tests/test_a.py::test_a": PASSED}


async def test_only_the_wanted_tests_run_and_files_beside_them_do_not_matter(run_check: RunCheck) -> None:
    files = {
        "test_a.py": "def test_1(): assert 0\ndef test_2(): assert 0\n",
        "test_b.py": "import gone\n",
    }
    run = await run_check(files, only=frozenset({"test_a.py::test_2"}))
    assert dict(run.verdicts) == {"test_a.py::test_2": FAILED}


async def test_all_verdicts_are_seen_though_the_command_stops_at_the_first(run_check: RunCheck) -> None:
    run = await run_check(
        {"test_a.py": "def test_1(): assert 0\ndef test_2(): assert 0\ndef test_3(): pass\n"},
        "python -m pytest -x -p no:cacheprovider --cov=pkg --cov-report term -n auto --timeout=3",
    )
    assert len(run.verdicts) == 3


async def test_a_command_that_ends_up_in_pytest_is_observed(run_check: RunCheck) -> None:
    run = await run_check(
        {
            "src/pkg.py": "",
            "tests/test_a.py": "import os, pkg\ndef test_a(): assert not {'SELFHEAL_GUEST', 'PYTEST_ADDOPTS'} & {*os.environ}",
            "run.sh": "cd tests\nPYTHONPATH=../src python -m pytest\n",
        },
        "sh run.sh && uv run --group dev pytest --version",
    )
    assert dict(run.verdicts) == {"tests/test_a.py::test_a": PASSED}, run.output


@pytest.mark.parametrize(
    "command",
    [
        "python -Im pytest tests",
        "python3 -I -m coverage run -m pytest tests",
        "python3 -Wonce::UserWarning -X dev -Im pytest tests",
    ],
)
async def test_an_isolated_python_is_observed_and_stays_apart_from_where_it_runs(run_check: RunCheck, command: str) -> None:
    files = {
        "here.py": "",
        "tests/test_a.py": "import importlib.util\n"
        "def test_a(): assert not importlib.util.find_spec('here')\ndef test_b(): assert 0",
    }
    run = await run_check(files, command)
    assert dict(run.verdicts) == {"tests/test_a.py::test_a": PASSED, "tests/test_a.py::test_b": FAILED}, run.output


@pytest.mark.parametrize("tests", ["-m unittest", "-m pytest"])
async def test_coverage_does_not_measure_the_guest(run_check: RunCheck, tests: str) -> None:
    test = "import unittest\nfrom m import f\nclass T(unittest.TestCase):\n    def test_f(self): self.assertEqual(f(), 1)\n"
    files = {"m.py": "def f():\n    return 1\n", "test_m.py": test}
    command = f"coverage run {tests} && coverage report --omit=selfheal_unittest.py --fail-under=100"
    run = await run_check(files, command, "unittest" if "unittest" in tests else "pytest")
    assert run.exit_code == 0, run.output
    assert run.green
    assert "selfheal_guest" not in run.output


@pytest.mark.parametrize("command", ["python -Im unittest", "python -Bm unittest", "coverage run -m unittest"])
async def test_unittest_behind_options_and_coverage_is_observed(run_check: RunCheck, command: str) -> None:
    text = "import unittest\nclass T(unittest.TestCase):\n    def test_a(self): self.fail()\n"
    run = await run_check({"test_a.py": text}, f"{command} discover", "unittest")
    assert dict(run.verdicts) == {"test_a.T.test_a": FAILED}, run.output


async def test_a_hang_is_a_timeout_that_keeps_what_was_seen(run_check: RunCheck) -> None:
    run = await run_check({"test_a.py": "import time\ndef test_1(): pass\ndef test_2(): time.sleep(60)\n"}, timeout=2)
    assert run.ending == "timeout"
    assert dict(run.verdicts) == {"test_a.py::test_1": PASSED, "test_a.py::test_2": ERROR}
    assert run.failures[0].message == "did not finish in 2 s"
    assert 0 < run.hung < 2


@pytest.mark.long
async def test_a_test_that_takes_long_is_named_while_it_runs(run_check: RunCheck) -> None:
    named: list[str] = []
    token = WATCH.set(named.append)
    try:
        text = "import time\ndef test_1(): pass\ndef test_2(): time.sleep(4)\ndef test_3(): time.sleep(1)\n"
        run = await run_check({"test_a.py": text})
    finally:
        WATCH.reset(token)
    assert named == ["test_a.py::test_2", ""]
    assert len(run.green) == 3
    assert "test_2" not in run.output


async def test_a_process_that_dies_is_a_crash(run_check: RunCheck) -> None:
    run = await run_check({"test_a.py": "import os\ndef test_1(): pass\ndef test_2(): os._exit(0)\n"})
    assert (run.ending, run.exit_code) == ("crashed", 0)
    assert dict(run.verdicts) == {"test_a.py::test_1": PASSED, "test_a.py::test_2": ERROR}

    run = await run_check({"test_a.py": "import os\ndef test_1(): os.kill(os.getpid(), 11)\n"})
    assert run.ending == "crashed"
    assert dict(run.verdicts) == {"test_a.py::test_1": ERROR}


async def test_a_conftest_that_exits_is_a_crash_not_a_green(run_check: RunCheck) -> None:
    run = await run_check({"conftest.py": "import os\nos._exit(0)\n", "test_a.py": "def test_1(): pass\n"})
    assert (run.ending, dict(run.verdicts)) == ("crashed", {})


async def test_a_hook_that_turns_failures_green_is_not_believed(run_check: RunCheck) -> None:
    run = await run_check(
        {
            "conftest.py": code("""
                import pytest
                @pytest.hookimpl(hookwrapper=True)
                def pytest_runtest_makereport(item, call):
                    outcome = yield
                    outcome.get_result().outcome = "passed"
            """),
            "test_a.py": "def test_1(): assert 0\n",
        }
    )
    assert (run.ending, dict(run.verdicts)) == ("crashed", {})
    assert "no result of this run counts" in run.output


@pytest.mark.parametrize(("command", "reader"), [("pytest || true", "pytest"), ("python -m unittest || true", "unittest")])
async def test_code_that_tells_failures_as_passed_is_not_believed(run_check: RunCheck, command: str, reader: Reader) -> None:
    patched = code("""
        import sys
        channel = sys.modules["selfheal_guest.wire.channel"].Channel
        send = channel.send
        def told(self, kind, **fields):
            if kind == "verdict":
                fields.update(verdict="passed", failure=None)
            return send(self, kind, **fields)
        channel.send = told
    """)
    tests = "import unittest\nimport calc\nclass T(unittest.TestCase):\n def test_1(self): assert 0\n def test_2(self): pass\n"
    run = await run_check({"calc.py": patched, "test_a.py": tests}, command, reader)
    assert (run.ending, dict(run.verdicts)) == ("crashed", {})
    assert "no result of this run counts" in run.output
    honest = await run_check({"calc.py": "", "test_a.py": tests}, command, reader)
    assert (honest.ending, sorted(honest.verdicts.values())) == ("finished", [FAILED, PASSED])


async def test_a_session_that_never_ran_the_test_that_must_fail_is_not_believed(run_check: RunCheck) -> None:
    forged = code("""
        from selfheal_guest.wire import channel
        c = channel.connect()
        c.send("hello", runner="pytest")
        c.send("verdict", id="test_a.py::test_1", verdict="passed", seconds=0.0, failure=None)
        c.send("end")
    """)
    run = await run_check({"pytest.py": forged, "test_a.py": "def test_1(): assert 0\n"}, "python -m pytest")
    assert (run.ending, dict(run.verdicts)) == ("crashed", {})


async def test_the_test_that_must_fail_disturbs_no_set_up_between_tests(run_check: RunCheck) -> None:
    run = await run_check(
        {
            "test_a.py": code("""
                import pytest
                made = []
                @pytest.fixture(scope="module", autouse=True)
                def module(): made.append("module")
                class TestOne:
                    @pytest.fixture(scope="class", autouse=True)
                    def whole(self): made.append("class")
                    @pytest.mark.parametrize("n", range(5))
                    def test_each(self, n): assert made == ["module", "class"]
                def test_after(): assert made == ["module", "class"]
            """)
        },
        "pytest -q",
    )
    assert (run.ending, run.exit_code, len(run.green)) == ("finished", 0, 6), run.output


async def test_a_written_report_on_stdout_is_only_output(run_check: RunCheck) -> None:
    run = await run_check({"test_a.py": "def test_1(): assert 0\n"}, 'echo \'{"ending": "finished"}\'; pytest || true')
    assert dict(run.verdicts) == {"test_a.py::test_1": FAILED}


async def test_endless_output_is_bounded(run_check: RunCheck) -> None:
    run = await run_check({"test_a.py": "def test_1():\n    for _ in range(200): print('x' * 1_000_000)\n"}, "pytest -s")
    assert dict(run.verdicts) == {"test_a.py::test_1": PASSED}
    assert len(run.output) <= 20_000


async def test_hostile_text_is_cleaned(run_check: RunCheck) -> None:
    run = await run_check({"test_a.py": "def test_1(): raise ValueError('\\x1b[31mred\\x00\\ud800\\u202eend\\x1b[0m')\n"})
    assert run.failures[0].message == "ValueError: redend"
    assert "\x1b" not in run.output + run.failures[0].details


async def test_no_tests_and_wrong_use_are_finished_without_verdicts(run_check: RunCheck) -> None:
    run = await run_check({"a.py": ""})
    assert (run.ending, dict(run.verdicts), run.exit_code) == ("finished", {}, 5)
    run = await run_check({"a.py": ""}, "pytest --no-such-option")
    assert (run.ending, dict(run.verdicts), run.exit_code) == ("finished", {}, 4)
    assert "no-such-option" in run.output


async def test_doctests_have_verdicts(run_check: RunCheck) -> None:
    run = await run_check(
        {"calc.py": 'def f():\n    """\n    >>> f()\n    2\n    """\n    return 1\n'}, "pytest --doctest-modules"
    )
    assert dict(run.verdicts) == {"calc.py::calc.f": FAILED}
    assert run.failures[0].frames[0].path == "calc.py"


async def test_unittest_verdicts(run_check: RunCheck) -> None:
    files = {
        "calc.py": CALC,
        "Makefile": "test:\n\tpython -m unittest -f\n",
        "tests/__init__.py": "",
        "tests/test_bad.py": "import gone\n",
        "tests/test_calc.py": code("""
            import unittest
            from calc import add
            class TestAdd(unittest.TestCase):
                def test_ok(self): pass
                def test_red(self): self.assertEqual(add(1, 2), 3)
                def test_raises(self): add(1, "x")
                def test_sub(self):
                    for i in range(3):
                        with self.subTest("number", i=i): self.assertEqual(i, 0)
                @unittest.expectedFailure
                def test_expected(self): self.fail()
                @unittest.skip("no")
                def test_skipped(self): pass
            class TestSetup(unittest.TestCase):
                @classmethod
                def setUpClass(cls): raise RuntimeError("down")
                def test_never(self): pass
        """),
    }
    run = await run_check(files, "python -m unittest discover", "unittest")
    name = "tests.test_calc.TestAdd."
    assert run.ending == "finished"
    assert dict(run.verdicts) == {
        "tests.test_bad": ERROR,
        f"{name}test_ok": PASSED,
        f"{name}test_red": FAILED,
        f"{name}test_raises": FAILED,
        f"{name}test_sub": FAILED,
        f"{name}test_expected": SKIPPED,
        f"{name}test_skipped": SKIPPED,
        "setUpClass (tests.test_calc.TestSetup)": ERROR,
    }
    failures = {failure.id: failure for failure in run.failures}
    assert failures["tests.test_bad"].message == "ModuleNotFoundError: No module named 'gone'"
    assert failures[f"{name}test_raises"].frames[-1] == Frame("calc.py", 2, "add")
    assert failures[f"{name}test_sub"].message == "AssertionError: 1 != 0"
    which = "In the subtest [number] (i=1). These fail too: [number] (i=2)\n\nTraceback"
    assert failures[f"{name}test_sub"].details.startswith(which)

    healed = {**files, "tests/test_bad.py": "import unittest\nclass T(unittest.TestCase):\n def test_t(self): pass\n"}
    made = await run_check(healed, "make test", "unittest", only=frozenset({"tests.test_bad", f"{name}test_red"}))
    assert dict(made.verdicts) == {"tests.test_bad": PASSED, "tests.test_bad.T.test_t": PASSED, f"{name}test_red": FAILED}


async def test_findings_keep_their_ids_when_lines_shift(run_check: RunCheck) -> None:
    ruff = "python -m ruff check --isolated --select F ."
    unused, first, second = (
        "a.py: F401 `os` imported but unused",
        "a.py: F821 Undefined name `y`",
        "a.py: F821 Undefined name `y`#2",
    )
    run = await run_check({"a.py": "import os\nx = y\nz = y\n"}, ruff, "findings")
    assert run.red == {unused, first, second}
    shifted = await run_check({"a.py": "y = 1\nimport os\nx = y\n"}, ruff, "findings", only=run.red)
    assert dict(shifted.verdicts) == {unused: FAILED, first: PASSED, second: PASSED}
    clean = await run_check({"a.py": ""}, ruff, "findings")
    assert dict(clean.verdicts) == {"exit": PASSED}
    broken = await run_check({"a.py": ""}, ruff + " --no-such", "findings")
    assert dict(broken.verdicts) == {"exit": FAILED}


async def test_an_exit_code_is_a_verdict(run_check: RunCheck) -> None:
    assert dict((await run_check({}, "true", "exit")).verdicts) == {"exit": PASSED}
    run = await run_check({}, "false | cat\necho never", "exit")
    assert dict(run.verdicts) == {"exit": FAILED}
    assert "never" not in run.output


async def test_what_fails_before_the_tests_hides_them_until_it_is_healed(run_check: RunCheck) -> None:
    files = {"a.py": "import os\n", "test_a.py": "def test_1(): pass\n"}
    command = "ruff check --isolated --select F . && pytest"
    run = await run_check(files, command)
    assert (run.ending, dict(run.verdicts)) == ("finished", {"exit": ERROR})
    assert run.failures[0].frames == (Frame("a.py", 1),)
    healed = await run_check({**files, "a.py": ""}, command, only=run.red)
    assert dict(healed.verdicts) == {"exit": PASSED, "test_a.py::test_1": PASSED}
    missing = await run_check({}, "no-such-program")
    assert (missing.exit_code, dict(missing.verdicts)) == (127, {})


@pytest.mark.long
async def test_a_command_that_fails_although_its_tests_pass_is_red_as_a_whole(run_check: RunCheck) -> None:
    files = {"test_a.py": "def test_1(): pass\ndef test_2(): pass\n"}
    run = await run_check(files, "pytest && { echo coverage is too low; exit 3; }")
    assert dict(run.verdicts) == {"test_a.py::test_1": PASSED, "test_a.py::test_2": PASSED, "exit": FAILED}
    assert run.failures[0].message == "exit code 3: coverage is too low"
    again = await run_check(files, "pytest && exit 3", only=frozenset({VerdictId("exit")}))
    assert again.red == {"exit"}
    part = await run_check(files, "pytest && exit 3", only=frozenset({VerdictId("test_a.py::test_1")}))
    assert dict(part.verdicts) == {"test_a.py::test_1": PASSED}, "a part of the tests may miss what the whole must reach"


async def test_findings_that_the_tool_lets_pass_are_not_red(run_check: RunCheck) -> None:
    run = await run_check({"a.py": "import os\n"}, "ruff check --isolated --select F --exit-zero .", "findings")
    assert dict(run.verdicts) == {"exit": PASSED}


async def test_an_env_of_the_workflow_reaches_the_tests(run_check: RunCheck) -> None:
    files = {"lib/x.py": "", "test_a.py": "import os, x\ndef test_1(): assert os.environ['PYTEST_ADDOPTS'] == '-q'\n"}
    run = await run_check(files, env={"PYTEST_ADDOPTS": "-q", "PYTHONPATH": "lib"})
    assert dict(run.verdicts) == {"test_a.py::test_1": PASSED}


async def test_a_test_runner_started_by_a_test_is_not_observed(run_check: RunCheck) -> None:
    run = await run_check(
        {
            "inner/test_in.py": "def test_in(): assert 0\n",
            "test_a.py": code("""
                import os, subprocess, sys
                def test_1():
                    assert subprocess.run([sys.executable, "-m", "pytest", "inner"]).returncode == 1
                def test_2():
                    child = os.fork()
                    assert child, "the copy's own pytest tells this as a failure, to nobody"
                    assert os.waitpid(child, 0)[1] == 1 << 8
            """),
        },
        "pytest test_a.py",
    )
    assert dict(run.verdicts) == {"test_a.py::test_1": PASSED, "test_a.py::test_2": PASSED}, run.output


async def test_what_a_command_leaves_running_does_not_keep_us(run_check: RunCheck) -> None:
    run = await run_check({}, "sleep 300 & true", "exit")
    assert (run.ending, run.exit_code) == ("finished", 0)
    assert run.seconds < 60


async def test_tests_cannot_reach_the_supervisor(run_check: RunCheck) -> None:
    run = await run_check(
        {
            "test_a.py": code("""
                import os, pytest
                def supervisor():
                    for pid in filter(str.isdigit, os.listdir("/proc")):
                        try:
                            argv = open(f"/proc/{pid}/cmdline", "rb").read().split(b"\\0")
                            if argv[3].endswith(b"selfheal-guest.zip") and argv[4] == b"run":
                                return pid
                        except (OSError, IndexError):
                            pass
                def test_1():
                    pid = supervisor()
                    assert pid
                    for use in (lambda: open(f"/proc/{pid}/fd/1", "w"), lambda: os.listdir(f"/proc/{pid}/fd")):
                        with pytest.raises(PermissionError):
                            use()
            """)
        }
    )
    assert dict(run.verdicts) == {"test_a.py::test_1": PASSED}, run.output


async def test_a_supervisor_that_is_killed_or_stopped_is_no_green(run_check: RunCheck, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.checks.runner.GRACE", 1.0)
    signal_it = "import os, signal\ndef test_1(): os.kill(os.getppid(), signal.{})\n"
    killed = await run_check({"test_a.py": signal_it.format("SIGKILL")}, "exec pytest", timeout=3.0)
    assert (killed.ending, dict(killed.verdicts)) == ("crashed", {})
    stopped = await run_check({"test_a.py": signal_it.format("SIGSTOP")}, "exec pytest", timeout=1.0)
    assert (stopped.ending, dict(stopped.verdicts)) == ("timeout", {})


@pytest.mark.parametrize(
    "stdout", [b"", b"{}", b"wrong " + REPORT, b"{nonce}" + REPORT, b"{nonce} [1]", b"{nonce} " + b"[" * 10**5]
)
async def test_an_answer_that_is_not_the_supervisors_is_a_crash(sandbox: Sandbox, stdout: bytes) -> None:
    run = await Runner(sandbox).run(Forger(stdout), Check("tests", "pytest", "pytest"))  # type: ignore[arg-type]
    assert (run.ending, dict(run.verdicts)) == ("crashed", {})
    true = await Runner(sandbox).run(Forger(b"{nonce} " + REPORT), Check("tests", "pytest", "pytest"))  # type: ignore[arg-type]
    assert true.ending == "finished"


@pytest.mark.parametrize(
    "line",
    [
        'b"nonsense"',
        'b"[]"',
        'b"{}"',
        r'b"\xff"',
        'b"[" * 10**5',
        'b"x" * 10**7',
        """b'{"kind": "verdict", "id": "y", "verdict": "passed", "seconds": 0, "failure": null}'""",
    ],
)
async def test_a_line_that_is_not_the_runners_own_is_survived_and_spoils_the_run(run_check: RunCheck, line: str) -> None:
    tests = "import selfheal_guest.observe.collector as c\ndef test_1(): c._channel._socket.sendall({} + b'\\n')\n"
    run = await run_check({"test_a.py": tests.format(line)})
    assert (run.ending, dict(run.verdicts)) == ("crashed", {})
    assert "no result of this run counts" in run.output


async def test_a_run_that_needs_too_much_memory_is_inconclusive(small_sandbox: Sandbox) -> None:
    check = Check("tests", "python -c 'x = bytearray(10**9)' && echo fine", "exit")
    async with small_sandbox.candidate() as workspace:
        run = await Runner(small_sandbox).run(workspace, check, timeout=60.0)
    assert run.ending == "out_of_memory"


async def test_the_test_that_needs_too_much_memory_says_so(small_sandbox: Sandbox) -> None:
    check = Check("tests", "printf 'def test_it(): bytearray(10**9)' > test_a.py && pytest", "pytest")
    async with small_sandbox.candidate() as workspace:
        run = await Runner(small_sandbox).run(workspace, check, timeout=60.0)
    assert run.ending == "out_of_memory"
    assert [each.message for each in run.failures] == ["the process ran out of memory while this ran"]


async def test_a_module_that_cannot_be_imported_may_stand_first(run_check: RunCheck) -> None:
    """One test in all, so that the one which must fail comes right after it."""
    run = await run_check({"test_bad.py": "import gone\n"}, "python -m unittest", "unittest")
    assert (run.ending, dict(run.verdicts)) == ("finished", {"test_bad": ERROR})


async def test_a_failure_shows_the_inputs_that_its_source_does_not(run_check: RunCheck) -> None:
    files = {
        "test_a.py": code("""
            import unittest

            class Opaque:
                def __repr__(self):
                    raise SystemExit

            class TestCases(unittest.TestCase):
                def check(self, text, wanted, opaque):
                    self.assertEqual(text.upper(), wanted)

                def test_helper(self):
                    self.check("a\\nb", "C", Opaque())

            def test_loop():
                ring = []
                ring.append(ring)
                for text, wanted in [("a", "A"), ("b", "C")]:
                    assert text.upper() == wanted

            def test_plain():
                text = "a"
                assert text.upper() == "C"

            def test_class_body():
                class Names:
                    def __getitem__(self, name):
                        raise KeyError(name)

                    def __setitem__(self, name, value):
                        pass

                class Meta(type):
                    @classmethod
                    def __prepare__(cls, *args):
                        return Names()

                class A(metaclass=Meta):
                    for n in [1]:
                        raise ValueError("in a class body")

            def test_numbers():
                max_n = 10
                n = 1
                huge = 7 ** 900
                for part in [[[0.12345678901234567]]]:
                    assert n == max_n
        """)
    }
    details = {failure.id.rpartition("::")[2]: failure.details for failure in (await run_check(files)).failures}
    assert details["test_helper"].endswith("Values in check:\ntext = 'a\\nb'\nwanted = 'C'")
    assert details["test_loop"].endswith("Values in test_loop:\nring = [[[[…]]]]\ntext = 'b'\nwanted = 'C'")
    assert "Values in" not in details["test_plain"]
    assert "Values in" not in details["test_class_body"]
    assert details["test_numbers"].endswith(
        "Values in test_numbers:\nmax_n = 10\nn = 1\nhuge = …\npart = [[0.12345678901234566]]"
    )
