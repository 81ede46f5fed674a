"""A step is recorded with its duration and its tokens, a rung with what it cost."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from agent.contract.blobs import MemoryBlobs
from agent.contract.budget import Budget, Ledger, RungCost, Usage
from agent.contract.events import AnyEvent, RungSpent, StepDone, StepStarted
from agent.contract.task import Task
from agent.report.recording import recorded, report_cost
from agent.state import Bookkeeping, Context, State, Work, pack
from tests.agent.workbench import Scripted

SPENT = 7.0  # seconds of earlier steps
UNUSED = cast(Any, None)  # nothing here runs in a sandbox


@dataclass
class Flow:
    """The events so far, and the clock that a step moves."""

    events: list[AnyEvent] = field(default_factory=list)
    now: float = 100.0

    async def emit(self, event: AnyEvent) -> None:
        self.events.append(event)

    def monotonic(self) -> float:
        return self.now

    def work(self, *rungs: str) -> Work:
        proposers = tuple(Scripted([], rung=rung) for rung in rungs)
        context = Context(self.emit, proposers, None, MemoryBlobs(), None, monotonic=self.monotonic)
        ledger = Ledger(Budget(), 0, Usage(), SPENT, self.now, self.monotonic)
        return Work(Task("t1", UNUSED, ()), context, UNUSED, ledger)


async def nothing(state: State, work: Work) -> Bookkeeping:
    return {}


async def test_a_step_is_recorded_with_its_seconds_and_tokens() -> None:
    flow = Flow()

    async def step(state: State, work: Work) -> Bookkeeping:
        flow.now += 2.5
        return {"notes": ["one"], "usage": [pack(Usage(10, 5, 1)), pack(Usage(1, 1, 1))]}

    update = await recorded("verify", step, State(), flow.work())
    assert update["notes"] == ["one"]
    assert update["seconds"] == SPENT + 2.5
    started, done = flow.events
    assert isinstance(started, StepStarted)
    assert (started.step, bool(started.text)) == ("verify", True)
    assert done == StepDone(text="", step="verify", seconds=2.5, tokens=17)


async def test_a_proposal_names_the_rung_whose_turn_it_is() -> None:
    flow = Flow()
    for rung in (0, 1, 2):
        await recorded("propose", nothing, State(rung=rung), flow.work("patterns", "model:qwen"))
    texts = [event.text for event in flow.events if isinstance(event, StepStarted)]
    assert ["qwen" in text for text in texts] == [False, True, False]
    assert len(set(texts)) == 3, "after the last rung, no rung is named"


async def test_a_step_that_fails_is_started_but_not_done() -> None:
    flow = Flow()

    async def step(state: State, work: Work) -> Bookkeeping:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await recorded("verify", step, State(), flow.work())
    assert [type(event) for event in flow.events] == [StepStarted]


async def test_what_a_rung_cost_is_an_event() -> None:
    flow = Flow()
    await report_cost(flow.work(), RungCost("patterns", 1.5, 40, 2, Usage(10, 5, 1, 0.25), "half of them"))
    (spent,) = flow.events
    assert isinstance(spent, RungSpent)
    assert (spent.rung, spent.seconds, spent.tried, spent.passed) == ("patterns", 1.5, 40, 2)
    assert (spent.tokens, spent.cost, spent.note) == (15, 0.25, "half of them")
    assert "40 changes" in spent.text
