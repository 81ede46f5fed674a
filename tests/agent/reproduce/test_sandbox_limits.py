"""What is red for want of something in the sandbox is told from what is red by itself: words of really run tests and steps."""

from pathlib import Path

import pytest

from agent.contract.outcome import ConfirmedFailure, NoRepair, Outcome
from agent.contract.verdicts import EXIT, Check, CheckRun, Failure, Verdict
from agent.report.endings import limited
from agent.reproduce.sandbox_limits import SandboxLimit, is_in_log, limit_behind
from sandbox.base import Sandbox
from tests.agent.conftest import RunCheck

pytestmark = pytest.mark.asyncio(loop_scope="session")

TESTS = {
    "test_net.py": """
import errno, locale, os, socket, subprocess, sys, urllib.request
from unittest import mock
import pytest

def lookup(): return socket.getaddrinfo("example.invalid", 80)

def test_network(): socket.create_connection(("example.invalid", 80), 2)
def test_url(): urllib.request.urlopen("http://example.invalid/", timeout=2)
FETCH = [sys.executable, "-c", "import urllib.request; urllib.request.urlopen('http://example.invalid')"]
def test_program(): subprocess.run(FETCH, check=True)
def test_captured_program(): subprocess.run(FETCH, check=True, capture_output=True)
def test_git(): subprocess.run(["git", "clone", "https://example.invalid/a"], check=True)
def test_large():
    with open("big", "wb") as file: file.truncate(3 << 40)
def test_loopback(): socket.create_connection(("127.0.0.1", 9), 2)
def test_mocked():
    with mock.patch("socket.getaddrinfo", side_effect=socket.gaierror(-3, "Temporary failure in name resolution")): lookup()
def test_replaced(monkeypatch):
    def gone(*given): raise socket.gaierror(-3, "Temporary failure in name resolution")
    monkeypatch.setattr(socket, "getaddrinfo", gone)
    lookup()
def test_told(): assert "Could not resolve host" == "fine"
def test_full(): raise OSError(errno.ENOSPC, "No space left on device")
def test_memory(): raise MemoryError
def test_locale(): locale.setlocale(locale.LC_ALL, "xx_XX.UTF-8")
"""
}


async def test_only_what_the_system_itself_said_is_a_lack_of_the_sandbox(run_check: RunCheck) -> None:
    run = await run_check(TESTS)
    check = Check("tests", "pytest", "pytest")
    found = {failure.id.partition("::")[2]: limit_behind(failure, run, check) for failure in run.failures}
    assert {name: lack.what for name, lack in found.items() if lack is not None} == {
        "test_network": "network", "test_url": "network", "test_large": "file size",
        "test_program": "network", "test_captured_program": "network", "test_git": "network", "test_locale": "locale",
    }  # fmt: skip
    assert len(found) == 13


@pytest.mark.parametrize(
    ("script", "what"),
    [
        ("python -c \"open('big', 'wb').truncate(3 * 1024**4)\"", "file size"),
        ("truncate -s 3T big", "file size"),
        ("dd if=/dev/zero of=big bs=1M count=1 seek=3000000", "file size"),
        ("python -c \"import urllib.request; urllib.request.urlopen('http://example.invalid')\"", "network"),
        ("python -c \"import socket; socket.create_connection(('127.0.0.1', 9))\"", None),
        ("echo No space left on device; for n in $(seq 20); do echo $n; done; exit 3", None),
    ],
)
async def test_a_step_that_ends_at_a_limit(run_check: RunCheck, script: str, what: str | None) -> None:
    run = await run_check({}, script, "exit")
    assert run.red == {EXIT}, run.output
    lack = limit_behind(run.failures[0], run, Check("step", script, "exit"))
    assert (lack and lack.what) == what, run.output


async def test_a_step_that_was_killed_for_its_memory() -> None:
    run = CheckRun("step", "out_of_memory", {EXIT: Verdict.FAILED}, (Failure(EXIT, "exit code 137: "),), 1.0, exit_code=137)
    lack = limit_behind(run.failures[0], run, Check("step", "./big", "exit"))
    assert lack is not None
    assert lack.what == "memory"


async def test_what_ci_says_too_is_no_lack_of_ours() -> None:
    lack = SandboxLimit("disk", "No space left on device")
    assert is_in_log(lack, ("cp: error writing 'x': No space left on device",))
    assert not is_in_log(lack, ("E  assert 1 == 2",))
    assert not is_in_log(lack, ())


BIG = "def test_big(tmp_path):\n    with open(tmp_path / 'big', 'wb') as file: file.truncate(3 << 40)\n"
CASES = [
    ({"test_big.py": BIG}, {}, Outcome.INFRASTRUCTURE),
    ({"test_big.py": BIG}, {"hints": ("E   OSError: [Errno 27] File too large",)}, None),
    ({"test_big.py": BIG + "def test_bug(): assert 1 == 2\n"}, {}, None),
]


@pytest.mark.parametrize(("files", "known", "outcome"), CASES)
async def test_a_limit_ends_the_attempt_only_where_it_explains_all_and_ci_does_not_tell_it(
    sandbox: Sandbox, tmp_path: Path, files: dict[str, str], known: dict[str, object], outcome: Outcome | None
) -> None:
    from tests.agent.reproduce.test_flakiness import Case

    result = await Case(tmp_path, files, sandbox).seen(**known)
    if outcome is None:
        assert isinstance(result, ConfirmedFailure), result
        return
    assert isinstance(result, NoRepair), result
    assert result.outcome is outcome
    assert "file size limit" in result.reason


async def test_of_a_checkout_what_the_sandbox_does_not_explain_is_repaired_and_the_rest_is_told(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    from tests.agent.reproduce.test_flakiness import Case

    sets = "import locale\ndef test_locale(): locale.setlocale(locale.LC_ALL, 'xx_XX.UTF-8')\ndef test_bug(): assert 1 == 2\n"
    result = await Case(tmp_path, {"test_a.py": sets + BIG}, sandbox).seen(failed_in_ci=False)
    assert isinstance(result, ConfirmedFailure), result
    assert result.failing == ("test_a.py::test_big", "test_a.py::test_bug"), "a limit can be what the bug reaches"
    note = "`test_a.py::test_locale` fails here, but the sandbox lacks what it needs; only the other failures are repaired."
    assert note in result.notes


BROWSER = "Executable doesn't exist at /tmp/.cache/ms-playwright/webkit-2311/pw_run.sh"


@pytest.mark.parametrize(
    ("output", "what"),
    [
        (f"browserType.launch: {BROWSER}\n1 failed", "browser"),
        (f"browser › all\n{BROWSER}\n\nmain › other\nValue is not `true`\n2 tests failed", "browser"),
        ("main › other\nValue is not `true`\n1 test failed", None),
        ("The Cypress binary is missing. Please reinstall it.", "browser"),
    ],
)
async def test_a_step_that_is_red_for_want_of_a_browser(output: str, what: str | None) -> None:
    run = CheckRun("tests", "finished", {EXIT: Verdict.FAILED}, (), 1.0, exit_code=1, output=output)
    found = limit_behind(Failure(EXIT, "exit code 1"), run, Check("tests", "npm test", "exit"))
    assert (found and found.what) == what
    if found is not None:
        assert is_in_log(found, [output])
        said = limited([EXIT], found.what, found.sign)
        assert said.reason.startswith("The whole command failed because the sandbox has no browser")
