"""The winner is made as small as its proof leaves time for, and what was proposed is not judged twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.contract import events
from agent.contract.budget import Budget
from agent.contract.outcome import NoRepair, Repair
from agent.contract.proposal import Edits, FileChange
from agent.contract.task import Task
from agent.edits.changes import digest
from agent.graph import repair
from agent.state import Context, Objection, Opinion, State, Work, pack
from tests.agent.workbench import CALC, PYTEST, RIGHT, SAMPLE, Bench, Scripted, change, sandbox_with

SLOW = CALC.replace("return a - b", "import time; time.sleep(1); return a - b")


def with_a_note(source: str, *fix: str) -> Edits:
    (right,) = change(*fix, source=source)
    return (right, FileChange("notes.txt", None, "hm\n"))


@pytest.mark.long
async def test_shrinking_leaves_the_proof_its_time(tmp_path: Path) -> None:
    bench, now = Bench(tmp_path), 0.0
    proposed = with_a_note(SLOW, "import time; time.sleep(1); return a - b", "return a + b")

    async def emit(event: events.AnyEvent) -> None:
        nonlocal now
        if isinstance(event, events.Verified):
            now = 84.0  # of the 90 s that may be worked; the base took more than 2 s

    async with sandbox_with(tmp_path, {**SAMPLE, "calc.py": SLOW}) as sandbox:
        task = Task("t1", sandbox, (PYTEST,), budget=Budget(seconds=100))
        ladder = (Scripted([(proposed,)]),)
        result = await repair(task, Context(emit, ladder, None, bench.blobs, bench.saver, monotonic=lambda: now))
    assert isinstance(result, Repair), result
    assert result.edits == proposed


@pytest.mark.long
async def test_what_was_proposed_is_not_judged_again_after_its_smaller_self_was_objected_to(tmp_path: Path) -> None:
    async def object_to(state: State, work: Work) -> State:
        return {"objection": pack(Objection("taste", "no"))}

    bench, proposed = Bench(tmp_path), with_a_note(CALC, "a - b", "a + b")
    rung = Scripted([(proposed,), (proposed,), ()])
    result = await bench.heal(rung, opinions=(Opinion("taste", object_to),))
    assert isinstance(result, NoRepair)
    assert {digest(proposed), digest(RIGHT)} <= rung.seen[-1].tried
    assert len(bench.of(events.Verified)) == 1


@pytest.mark.long
async def test_a_part_of_a_models_change_that_no_test_asks_for_stays(tmp_path: Path) -> None:
    proposed = with_a_note(CALC, "a - b", "a + b")
    result = await Bench(tmp_path).heal(Scripted([(proposed,)], rung="model:scripted"))
    assert isinstance(result, Repair), result
    assert result.edits == proposed
