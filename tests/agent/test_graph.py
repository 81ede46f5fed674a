"""The whole flow, on real runs: what goes in red comes out verified, or ends in its outcome with a sentence."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agent.contract import events
from agent.contract.blobs import MemoryBlobs
from agent.contract.budget import Budget
from agent.contract.outcome import NoRepair, Outcome, Repair
from agent.contract.proposal import FileChange
from agent.contract.question import Reply, Waiting
from agent.contract.task import Policy, Task
from agent.contract.verdicts import Check
from agent.graph import STEPS, repair
from agent.proposers.patterns.proposer import PatternsProposer
from agent.state import Context
from tests.agent.workbench import CALC, PYTEST, RIGHT, SAMPLE, TESTS, WRONG, Bench, Scripted, change, sandbox_with

pytestmark = pytest.mark.usefixtures("remembered_runs")
JUDGED = ["guard", "verify", "select", "prove", "challenge", "review", "weigh", "approve", "report"]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


async def test_a_red_suite_is_repaired_and_the_green_is_proven(bench: Bench) -> None:
    result = await bench.heal(Scripted([(RIGHT,)]))
    assert isinstance(result, Repair), result
    assert result.edits == RIGHT
    (evidence,) = result.evidence.checks
    assert evidence.target == ("test_calc.py::test_add",)
    assert (evidence.base_red, evidence.base_green) == (1, 2)
    assert (evidence.with_red, evidence.with_green) == (0, 3)
    assert evidence.without_red == 1
    assert result.evidence.environment == "this machine"
    assert "test_add" in result.diagnosis.cause
    assert bench.steps() == ["reproduce", "compare", "localize", "recall", "climb", "propose", *JUDGED]
    assert [event.outcome for event in bench.of(events.Ended)] == ["healed"]
    assert result.log.iterations[-1].result == "verified"
    assert [told.cause for told in bench.of(events.Diagnosed)] == [result.diagnosis.cause]


async def test_the_search_without_a_model_heals_the_sample(bench: Bench) -> None:
    plain = Check("tests", PYTEST.command, "pytest", timeout=30)  # as a repository's own: with its plugins
    result = await bench.heal(PatternsProposer(), checks=(plain,))
    assert isinstance(result, Repair), result
    assert result.edits[0].after == SAMPLE["calc.py"].replace("a - b", "a + b")
    assert result.log.rungs[0].tried > 0


async def test_a_failed_candidate_teaches_and_is_not_judged_again(bench: Bench) -> None:
    model = Scripted([(WRONG,), (WRONG,), (RIGHT,)], rung="model:scripted")
    result = await bench.heal(model)
    assert isinstance(result, Repair), result
    assert [round_.result[:31] for round_ in result.log.iterations] == ["1 of 1 failing test still fails", "verified"]
    assert "assert 6 == 5" in model.seen[1].lessons[0]
    assert "This repeats an earlier change; propose something else: changes calc.py" in model.seen[2].lessons
    assert len(bench.of(events.Verified)) == 2
    assert bench.steps().count("diagnose") == 1
    assert len(bench.of(events.Diagnosed)) == 1, "what was told before the first change is no news at the end"


async def test_an_answer_that_did_not_arrive_teaches_nothing(bench: Bench) -> None:
    model = Scripted([(), (RIGHT,)], rung="model:scripted", note="no answer within 5 s")
    assert isinstance(await bench.heal(model), Repair)
    assert model.seen[1].lessons == ()


@pytest.mark.long
async def test_a_change_that_breaks_something_else_is_refused(bench: Bench) -> None:
    both = (FileChange("calc.py", CALC, CALC.replace("a - b", "a + b").replace("a * 2", "a * 3")),)
    result = await bench.heal(Scripted([(both,)]))
    assert isinstance(result, NoRepair)
    assert result.outcome is Outcome.GAVE_UP
    assert bench.of(events.Verified)[0].newly_red == ["test_calc.py::test_double"]
    assert "breaks `test_calc.py::test_double`" in result.log.iterations[0].result


async def test_the_cheaper_rung_is_asked_first_and_the_next_one_when_it_fails(bench: Bench) -> None:
    result = await bench.heal(Scripted([(WRONG,)]), Scripted([(RIGHT,)], rung="model:scripted"))
    assert isinstance(result, Repair)
    assert [rung.rung for rung in result.log.rungs] == ["patterns", "model:scripted"]


async def test_the_policy_narrows_the_ladder(bench: Bench) -> None:
    result = await bench.heal(Scripted([(RIGHT,)]), policy=Policy(rungs=("tools",)))
    assert isinstance(result, NoRepair)
    assert result.outcome is Outcome.GAVE_UP
    assert "No source of patches" in result.reason


async def test_green_checks_are_not_reproduced(bench: Bench) -> None:
    result = await bench.heal(files={**SAMPLE, "calc.py": CALC.replace("a - b", "a + b")})
    assert isinstance(result, NoRepair)
    assert result.outcome is Outcome.NOT_REPRODUCED
    assert "3 results" in result.reason


async def test_without_tests_nothing_failed(bench: Bench) -> None:
    result = await bench.heal(files={"calc.py": CALC})
    assert isinstance(result, NoRepair)
    assert result.outcome is Outcome.NOTHING_FAILED, result


FLAKY = """
import pathlib
def test_luck():
    counter = pathlib.Path(COUNTER)
    n = int(counter.read_text()) if counter.exists() else 0
    counter.write_text(str(n + 1))
    assert n != 0
"""


@pytest.mark.long
async def test_a_failure_that_comes_and_goes_is_flaky(bench: Bench) -> None:
    source = FLAKY.replace("COUNTER", repr(str(bench.folder / "n")))
    result = await bench.heal(files={"test_luck.py": source})
    assert isinstance(result, NoRepair)
    assert result.outcome is Outcome.FLAKY
    assert " failed in 1 of " in result.reason


@pytest.mark.long
async def test_an_unsteady_test_beside_a_steady_one_decides_nothing(bench: Bench) -> None:
    source = FLAKY.replace("COUNTER", repr(str(bench.folder / "n")))
    result = await bench.heal(Scripted([(RIGHT,)]), files={**SAMPLE, "test_luck.py": source})
    assert isinstance(result, Repair), result
    assert any("test_luck" in note for note in result.log.notes)


@pytest.mark.long
async def test_an_import_error_at_collection_is_healed_when_the_hidden_tests_pass(bench: Bench) -> None:
    source = "from calk import add\n\ndef plus(a, b):\n    return add(a, b)\n"
    files = {"calc.py": "def add(a, b):\n    return a + b\n", "plus.py": source}
    files["test_plus.py"] = "from plus import plus\n\ndef test_plus():\n    assert plus(1, 2) == 3\n"
    result = await bench.heal(Scripted([(change("calk", "calc", "plus.py", source),)]), files=files)
    assert isinstance(result, Repair), result
    assert result.evidence.checks[0].target == ("test_plus.py",)
    assert result.diagnosis.category == "import"


@pytest.mark.long
async def test_an_import_error_is_not_healed_by_hidden_tests_that_fail(bench: Bench) -> None:
    source = "from calk import add\n\ndef plus(a, b):\n    return add(a, b)\n"
    files = {
        "calc.py": CALC,
        "plus.py": source,
        "test_plus.py": "from plus import plus\n\ndef test_plus():\n    assert plus(1, 2) == 3\n",
    }
    result = await bench.heal(Scripted([(change("calk", "calc", "plus.py", source),)]), files=files)
    assert isinstance(result, NoRepair), result


@pytest.mark.long
async def test_a_hanging_test_can_be_repaired(bench: Bench) -> None:
    source = "def count(n):\n    while n != 0:\n        n -= 2\n    return n\n"
    tests = (
        "from loop import count\n\ndef test_even():\n    assert count(4) == 0\n\ndef test_odd():\n    assert count(3) <= 0\n"
    )
    check = Check("tests", PYTEST.command, "pytest", timeout=4)  # waited out five times
    fixed = change("n != 0", "n > 0", "loop.py", source)
    result = await bench.heal(Scripted([(fixed,)]), files={"loop.py": source, "test_loop.py": tests}, checks=(check,))
    assert isinstance(result, Repair), result
    assert result.evidence.checks[0].target == ("test_loop.py::test_odd",)


@pytest.mark.long
async def test_a_change_that_cannot_be_told_from_luck_proves_nothing(bench: Bench) -> None:
    """Red three times at the base, green ever after: the red without the change does not come back."""
    counter = bench.folder / "n"
    source = FLAKY.replace("COUNTER", repr(str(counter))).replace("n != 0", "n >= 2")
    result = await bench.heal(Scripted([(RIGHT,)]), files={"calc.py": CALC, "test_luck.py": source})
    assert isinstance(result, NoRepair)
    assert "also passed without the change" in result.log.iterations[0].result


async def test_a_model_that_insists_on_editing_tests_ends_as_needs_test_change(bench: Bench) -> None:
    edits = [change(f"== {n}", f"== {n + 90}", "test_calc.py", TESTS) for n in (5, 2, 8)]
    model = Scripted([(edit,) for edit in edits], rung="model:scripted")
    result = await bench.heal(model)
    assert isinstance(result, NoRepair)
    assert result.outcome is Outcome.NEEDS_TEST_CHANGE
    assert "test_add" in result.reason
    assert len(model.seen) == 2
    assert len(bench.of(events.Diagnosed)) == 1
    assert not bench.of(events.Verified)


async def test_the_iterations_of_the_budget_are_a_bound(bench: Bench) -> None:
    rounds = [(change("a - b", f"a - b - {n}"),) for n in range(1, 6)]
    result = await bench.heal(Scripted(rounds, rung="model:scripted"), budget=Budget(iterations=2))  # type: ignore[arg-type]
    assert isinstance(result, NoRepair)
    assert result.outcome is Outcome.OUT_OF_BUDGET
    assert "2 iterations" in result.reason
    assert len(result.log.iterations) == 2


async def test_a_finished_attempt_repeats_its_result_without_running_anything(bench: Bench) -> None:
    first = await bench.heal(Scripted([(RIGHT,)]))
    told = len(bench.events)
    assert await bench.heal() == first
    assert len(bench.events) == told


async def test_a_checkpoint_of_another_graph_starts_afresh_and_says_so(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    await bench.heal(Scripted([(WRONG,)]))
    monkeypatch.setattr("agent.graph.GRAPH_VERSION", 10**6)
    result = await bench.heal(Scripted([(RIGHT,)]))
    assert isinstance(result, Repair)
    assert any("restarted" in event.text for event in bench.of(events.Degraded))


async def test_the_evidence_names_the_environment_of_the_proof_whatever_comes_after_a_persons_yes(bench: Bench) -> None:
    async def heal(environment: str, reply: Reply | None = None) -> Repair | NoRepair | Waiting:
        async with sandbox_with(bench.folder, SAMPLE) as sandbox:
            task = Task("t1", sandbox, (PYTEST,), Policy(autonomy="review_publish"), Budget(), environment=environment)
            return await repair(task, Context(bench.emit, (Scripted([(RIGHT,)]),), None, bench.blobs, bench.saver), reply)

    assert isinstance(await heal("the first one"), Waiting)
    result = await heal("another one", Reply(approved=True))
    assert isinstance(result, Repair), result
    assert result.evidence.environment == "the first one"


async def test_lost_blobs_start_afresh(bench: Bench) -> None:
    await bench.heal(Scripted([(WRONG,)]))
    bench.blobs = MemoryBlobs()
    assert isinstance(await bench.heal(Scripted([(RIGHT,)])), Repair)


ROUNDS = ["propose", "guard", "verify", "select", "reflect", "climb", "propose", *JUDGED]
PATH = ["reproduce", "compare", "localize", "recall", "climb", "diagnose", *ROUNDS]
QUICK = Check("step", f"{sys.executable} -c 'import calc; assert calc.add(2, 3) == 5'", "exit", timeout=30)


class Killed(BaseException):
    """Ends a worker in the middle of a step."""


@pytest.mark.parametrize("kill_at", [step for step in STEPS if step not in ("approve_round", "probe")])
async def test_another_worker_goes_on_where_the_first_one_fell(bench: Bench, kill_at: str) -> None:
    emit = bench.emit

    async def fall(event: events.AnyEvent) -> None:
        await emit(event)
        if isinstance(event, events.StepStarted) and event.step == kill_at:
            raise Killed

    model = Scripted([(WRONG,), (RIGHT,)], rung="model:scripted")
    bench.emit = fall  # type: ignore[method-assign]
    with pytest.raises(Killed):
        await bench.heal(model, checks=(QUICK,))
    done = bench.steps()
    assert done == PATH[: PATH.index(kill_at) + 1]
    bench.emit = emit  # type: ignore[method-assign]
    result = await bench.heal(model, checks=(QUICK,))
    assert isinstance(result, Repair), result
    assert bench.steps()[len(done) :] == PATH[PATH.index(kill_at) :]
    assert [iteration.number for iteration in result.log.iterations] == [1, 2]
    assert [cost.rung for cost in result.log.rungs] == ["model:scripted"] * 2


CRASHING = """
import asyncio, os, signal, sys
from pathlib import Path
import aiosqlite
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from agent.contract import events
from agent.graph import repair
from agent.state import Context
from agent.contract.outcome import Repair
from agent.contract.task import Task
from tests.agent.workbench import PYTEST, RIGHT, SAMPLE, FileBlobs, Scripted, sandbox_with

folder, kill_at = Path(sys.argv[1]), sys.argv[2]

async def emit(event):
    if isinstance(event, events.StepStarted):
        print(event.step, flush=True)
        if event.step == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

async def main():
    async with aiosqlite.connect(folder / "checkpoints.db", timeout=30) as db, sandbox_with(folder, SAMPLE) as sandbox:
        saver = AsyncSqliteSaver(db, serde=JsonPlusSerializer(allowed_msgpack_modules=[]))  # plain data alone
        context = Context(emit, (Scripted([(RIGHT,)]),), None, FileBlobs(folder / "blobs"), saver)
        result = await repair(Task("t1", sandbox, (PYTEST,)), context)
        assert isinstance(result, Repair), result
        print(result.title, flush=True)

asyncio.run(main())
"""


@pytest.mark.long
def test_a_killed_repair_is_finished_by_another_process(tmp_path: Path) -> None:
    def run(kill_at: str) -> subprocess.CompletedProcess[str]:
        root = Path(__file__).parents[2]
        return subprocess.run(
            [sys.executable, "-c", CRASHING, str(tmp_path), kill_at],
            cwd=root,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    first = run("verify")
    assert first.returncode == -signal.SIGKILL, first.stderr
    assert first.stdout.split() == ["reproduce", "compare", "localize", "recall", "climb", "propose", "guard", "verify"]
    second = run("never")
    assert second.returncode == 0, second.stderr
    assert second.stdout.splitlines() == [
        "verify",
        "select",
        "prove",
        "challenge",
        "review",
        "weigh",
        "approve",
        "report",
        "changes calc.py",
    ]
