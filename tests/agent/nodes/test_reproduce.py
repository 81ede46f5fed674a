"""Whether it is really red: what a replay has already seen counts."""

import time
from dataclasses import replace
from pathlib import Path

import pytest

from agent.contract.events import Reproduced
from agent.contract.outcome import ConfirmedFailure, NoRepair, Outcome, Repair
from agent.contract.proposal import Edits, FileChange
from agent.contract.verdicts import EXIT, Check, CheckRun, Failure, Oracle, Verdict, VerdictId
from agent.gate import gate
from agent.gate.gate import steady
from agent.nodes import reproduce as reproducing
from agent.state import Work
from tests.agent.reproduce.test_flakiness import Case
from tests.agent.workbench import CALC, PYTEST, RIGHT, SAMPLE, TESTS, Scripted, change


def replayed(name: str) -> CheckRun:
    return CheckRun(
        name, "finished", {EXIT: Verdict.FAILED}, (Failure(EXIT, "exit code 3: no"),), 0.1, exit_code=3, output="no"
    )


async def test_a_red_replay_that_is_green_when_it_is_reproduced_is_flaky(tmp_path: Path) -> None:
    result = await Case(tmp_path, {}).seen(checks=(Check("step", "true", "exit"),), replayed=(replayed("step"),))
    assert isinstance(result, NoRepair), result
    assert result.outcome is Outcome.FLAKY
    assert result.flakiness is not None
    assert (result.flakiness.red, result.flakiness.runs) == (1, 3)


async def test_so_it_is_where_the_replay_ran_one_of_two_checks(tmp_path: Path) -> None:
    checks = (Check("step", "true", "exit"), Check("other", "true", "exit"))
    result = await Case(tmp_path, {}).seen(checks=checks, replayed=(replayed("step"),))
    assert isinstance(result, NoRepair), result
    assert result.outcome is Outcome.FLAKY


async def test_the_replay_is_the_first_of_the_runs(tmp_path: Path) -> None:
    check = Check("step", "echo x >> ../count; exit 3", "exit")
    result = await Case(tmp_path, {}).seen(checks=(check,), replayed=(replayed("step"),))
    assert isinstance(result, ConfirmedFailure), result
    assert result.base[0].output == "no"


async def test_a_green_replay_is_the_first_of_two_runs_unless_the_second_is_red(tmp_path: Path) -> None:
    green = CheckRun("step", "finished", {EXIT: Verdict.PASSED}, (), seconds=1000.0, exit_code=0)
    for script, counts in (("true", True), ("exit 3", False)):
        case = Case(tmp_path / script, {})
        result = await case.seen(checks=(Check("step", script, "exit"),), replayed=(green,))
        (told,) = (event for event in case.events if isinstance(event, Reproduced))
        assert told.text.endswith("in both runs")
        assert (told.seconds > 1000) is counts
        assert isinstance(result, NoRepair) is counts, result


@pytest.mark.long
async def test_that_every_test_needs_what_the_sandbox_lacks_is_no_failure(tmp_path: Path) -> None:
    files = {
        "conftest.py": "import os\ndef pytest_generate_tests(metafunc): os.listdir('vendor/data')\n",
        "test_it.py": "def test_it(): pass\n",
    }
    for absent, failing in ((("vendor/data/",), False), ((), True)):
        check = Check("tests", "python -m pytest", "pytest", absent=absent)
        result = await Case(tmp_path, files).seen(checks=(check,))
        assert isinstance(result, ConfirmedFailure) is failing, result
        if isinstance(result, NoRepair):
            assert result.outcome is Outcome.INFRASTRUCTURE
            assert "the sandbox lacks `vendor/data/`" in result.reason


@pytest.mark.long
async def test_a_suite_that_hung_once_is_not_waited_for_as_long_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reproducing, "HANG", 3.0)
    hanging = VerdictId("test_a.py::test_b")
    failure = Failure(hanging, "did not finish in 500 s")
    seen = CheckRun("tests", "timeout", {hanging: Verdict.ERROR}, (failure,), 500.0, hung=499.9)
    text = "import time\ndef test_b(): time.sleep(300)\n"
    case, began = Case(tmp_path, {"test_a.py": text}), time.monotonic()
    result = await case.seen(checks=(replace(PYTEST, timeout=120),), replayed=(seen,))
    assert isinstance(result, ConfirmedFailure), result
    assert time.monotonic() - began < 60, "the second run took the whole limit"
    (note,) = [note for note in result.notes if "was stopped" in note]
    assert f"was stopped after 8 min while `{hanging}` ran. If it needs longer, raise the limit: `timeout:`" in note


def long_run(**verdicts: Verdict) -> CheckRun:
    seen = {VerdictId(f"test_calc.py::test_{name}"): verdict for name, verdict in verdicts.items()}
    failed = tuple(Failure(id_, "assert -1 == 5") for id_, verdict in seen.items() if verdict is Verdict.FAILED)
    return CheckRun("tests", "finished", seen, failed, 1000.0, exit_code=1)


async def test_of_a_long_run_only_what_failed_runs_again(tmp_path: Path) -> None:
    spoilt = {**SAMPLE, "test_calc.py": TESTS.replace("double(4) == 8", "double(4) == 9")}
    run = long_run(add=Verdict.FAILED, double=Verdict.PASSED)
    case = Case(tmp_path / "alone", spoilt)
    result = await case.seen(checks=(PYTEST,), replayed=(run,))
    assert isinstance(result, ConfirmedFailure), result
    assert result.failing == ("test_calc.py::test_add",)
    assert result.oracle.seen_once
    (told,) = (event for event in case.events if isinstance(event, Reproduced))
    assert told.text == "1 failed, 1 passed, and what failed did so again when it ran without the rest"

    # What CI reports as failing may be flaky if it passes here; and what passes alone may depend on the tests before it.
    reported = await Case(tmp_path / "reported", spoilt).seen(
        checks=(PYTEST,), replayed=(run,), reported_ids=("test_calc.py::test_double",)
    )
    assert isinstance(reported, ConfirmedFailure), reported
    assert not reported.oracle.seen_once
    fixed = {**SAMPLE, "calc.py": CALC.replace("a - b", "a + b")}
    passing = await Case(tmp_path / "passing", fixed).seen(checks=(PYTEST,), replayed=(run,))
    assert isinstance(passing, NoRepair), passing
    assert passing.outcome is Outcome.FLAKY


async def test_what_fails_in_another_run_of_the_base_is_not_blamed_on_a_change_and_is_told(tmp_path: Path) -> None:
    spoilt = {**SAMPLE, "test_calc.py": TESTS.replace("add(2, 0) == 2", "add(2, 0) == 9")}
    run = long_run(add=Verdict.FAILED, add_nothing=Verdict.PASSED, double=Verdict.PASSED)
    healed = await Case(tmp_path, spoilt).healed(Scripted([(RIGHT,)]), checks=(PYTEST,), replayed=(run,))
    assert isinstance(healed, Repair), healed
    told = "Failed with a patch, and in one of two runs without it, so ignored: `test_calc.py::test_add_nothing`."
    assert told in healed.log.notes


async def test_what_passes_in_every_run_of_the_base_may_not_break(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_all, whole_bases = gate._runs, 0

    async def counted(work: Work, known: Oracle, edits: Edits, *, target_only: bool, patience: float | None = None) -> object:
        nonlocal whole_bases
        whole_bases += not edits and not target_only
        return await run_all(work, known, edits, target_only=target_only, patience=patience)

    monkeypatch.setattr(gate, "_runs", counted)
    spoilt = {**SAMPLE, "test_calc.py": TESTS.replace("add(2, 0) == 2", "add(2, 0) == 9")}
    run = long_run(add=Verdict.FAILED, add_nothing=Verdict.PASSED, double=Verdict.PASSED)
    breaking = change("a * 2", "a * 3", source=CALC.replace("a - b", "a + b"))
    both = (FileChange("calc.py", CALC, breaking[0].after),)
    healed = await Case(tmp_path, spoilt).healed(Scripted([(both,), (RIGHT,)]), checks=(PYTEST,), replayed=(run,))
    assert isinstance(healed, Repair), healed
    assert "breaks `test_calc.py::test_double` (" in healed.log.iterations[0].result
    assert whole_bases == 1, "the base runs again once for all changes"


def test_only_a_base_run_like_the_first_says_what_is_not_steady() -> None:
    target, passing, flaky = (VerdictId(f"test_calc.py::test_{name}") for name in ("add", "double", "flaky"))
    known = Oracle((PYTEST,), {"tests": frozenset({target})}, {"tests": frozenset({passing, flaky})}, seen_once=True)
    failed, passed = Verdict.FAILED, Verdict.PASSED

    def stay(run: CheckRun) -> frozenset[VerdictId]:
        return steady(known, {"tests": run}).must_stay["tests"]

    like = CheckRun("tests", "finished", {target: failed, passing: passed, flaky: failed}, (), 9.0)
    assert stay(like) == {passing}
    for odd in (
        replace(like, ending="timeout"),
        replace(like, stopped_at="make"),
        replace(like, verdicts={EXIT: Verdict.ERROR}),
        replace(like, verdicts={VerdictId("test_calc.py"): Verdict.ERROR, target: failed}),
        replace(like, verdicts={**like.verdicts, target: passed}),
    ):
        assert stay(odd) == {passing, flaky}, odd
    assert steady(replace(known, seen_once=False), {"tests": like}).must_stay["tests"] == {passing, flaky}
