# ruff: noqa: E501 - sources of tiny repositories
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from agent.checks.runner import GuestReply, Runner
from agent.contract.events import AnyEvent, Degraded
from agent.contract.verdicts import Check, CheckRun, Failure, Frame, Oracle, Verdict, VerdictId
from agent.reproduce.localization import localize
from sandbox.base import Sandbox, Workspace
from tests.agent.stage import situation
from tests.agent.workbench import sandbox_with

FILES = {
    "pkg/__init__.py": "",
    "pkg/m.py": "def good(a):\n    return a + 1\n\n\ndef bad(a):\n    if a:\n        return a - 1\n    return 0\n",
    "tests/test_m.py": "from pkg.m import bad, good\n\ndef test_good():\n    assert good(1) == 2\n\ndef test_zero():\n    assert bad(0) == 0\n\ndef test_bad():\n    assert bad(1) == 2\n",
}


@pytest.fixture
async def sandbox(tmp_path: Path) -> AsyncIterator[Sandbox]:
    async with sandbox_with(tmp_path, FILES) as opened:
        yield opened


async def test_the_line_that_only_failing_tests_run_is_the_most_suspicious(sandbox: Sandbox) -> None:
    suspects = (await situation(sandbox)).suspects
    assert (suspects[0].path, suspects[0].first_line, suspects[0].name) == ("pkg/m.py", 7, "bad")
    assert suspects[0].score > max(s.score for s in suspects[1:])
    assert {s.path for s in suspects} == {"pkg/m.py"}
    assert not any(s.first_line <= 2 <= s.last_line for s in suspects), "what no failing test runs is not suspicious"


async def test_without_a_trace_the_tracebacks_decide_and_it_is_said(sandbox: Sandbox) -> None:
    red = VerdictId("tests/test_gone.py::test_x")
    check = Check("tests", "pytest", "pytest")
    frames = (Frame("tests/test_gone.py", 3, "test_x"), Frame("pkg/m.py", 2, "good"), Frame("pkg/m.py", 7, "bad"))
    run = CheckRun("tests", "finished", {red: Verdict.FAILED}, (Failure(red, "boom", frames=frames),), 1.0)
    events: list[AnyEvent] = []

    async def emit(event: AnyEvent) -> None:
        events.append(event)

    oracle = Oracle((check,), {"tests": frozenset({red})}, {"tests": frozenset()})
    suspects = await localize(sandbox, Runner(sandbox), oracle, (run,), emit=emit)
    assert [(s.path, s.first_line) for s in suspects] == [("pkg/m.py", 7), ("pkg/m.py", 2)]
    assert [type(e) for e in events] == [Degraded]


class Timed(Runner):
    """Remembers how long each check's trace may take."""

    def __init__(self, sandbox: Sandbox) -> None:
        super().__init__(sandbox)
        self.limits: dict[str, float] = {}

    async def ask(
        self, workspace: Workspace, guest_command: str, stdin: bytes, seconds: float, *, check: Check | None = None
    ) -> GuestReply:
        assert check is not None
        self.limits[check.name] = seconds
        return await super().ask(workspace, guest_command, stdin, seconds, check=check)


async def test_a_check_that_hung_takes_no_time_from_the_others(sandbox: Sandbox) -> None:
    red, runner = VerdictId("tests/test_m.py::test_bad"), Timed(sandbox)
    failed = CheckRun("", "finished", {red: Verdict.FAILED}, (Failure(red, "assert 0 == 2"),), 22.0)
    runs = [
        replace(failed, check=name, hung=hung) for name, hung in {"hung": 21.5, "slow": 20.0, "other": 0.0, "last": 0.0}.items()
    ]
    checks = tuple(Check(run.check, "python -m pytest -q", "pytest") for run in runs)
    oracle = Oracle(checks, {run.check: frozenset({red}) for run in runs}, {run.check: frozenset() for run in runs})

    async def emit(event: AnyEvent) -> None:
        assert not isinstance(event, Degraded), event

    await localize(sandbox, runner, oracle, tuple(runs), emit=emit, seconds=60.0)
    assert runner.limits == {"hung": 5.0, "slow": 10.0, "other": 15.0, "last": 15.0}
