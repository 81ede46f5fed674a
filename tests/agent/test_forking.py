"""Time travel: a fork begins where its source chose a round, and leaves the source as it is."""

from __future__ import annotations

from pathlib import Path

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver

from agent.contract.blobs import MemoryBlobs
from agent.contract.events import AnyEvent, StepStarted
from agent.contract.outcome import NoRepair, Repair
from agent.contract.question import Waiting
from agent.contract.task import Policy, Task
from agent.forking import CannotFork, Course, fork
from agent.graph import repair
from agent.proposer import Proposer
from agent.state import Context, Opinion, State, Work
from tests.agent.workbench import PYTEST, RIGHT, SAMPLE, WRONG, Scripted, change, sandbox_with

pytestmark = pytest.mark.usefixtures("remembered_runs")
OTHER = change("a - b", "b - a")
CAME_FROM = "Forked from attempt t1 before round 2"


class Garage:
    """Several attempts that share their checkpoints and blobs."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.saver, self.blobs = folder, InMemorySaver(), MemoryBlobs()
        self.events: list[AnyEvent] = []

    async def heal(self, attempt: str, *rungs: Proposer, policy: Policy = Policy()) -> Repair | NoRepair | Waiting:
        self.events.clear()
        async with sandbox_with(self.folder, SAMPLE) as sandbox:
            return await repair(
                Task(attempt, sandbox, (PYTEST,), policy), Context(self.emit, rungs, None, self.blobs, self.saver)
            )

    async def emit(self, event: AnyEvent) -> None:
        self.events.append(event)

    def steps(self) -> list[str]:
        return [event.step for event in self.events if isinstance(event, StepStarted)]

    async def fork(self, iteration: int, target: str = "t2", opinions: tuple[Opinion, ...] = (), **course: str) -> None:
        way = Course(iteration, CAME_FROM, **course)  # type: ignore[arg-type]
        await fork(self.saver, opinions, "t1", target, way)


@pytest.fixture
def garage(tmp_path: Path) -> Garage:
    return Garage(tmp_path)


@pytest.mark.long
async def test_a_fork_knows_what_was_before_its_round_and_goes_another_way(garage: Garage) -> None:
    model = Scripted([(WRONG,), (OTHER,)], rung="model:small")
    first = await garage.heal("t1", model)
    assert isinstance(first, NoRepair), first
    assert len(first.log.iterations) == 2

    await garage.fork(2, hint="Look at the sign.", rung="model:large")
    small, large = Scripted([], rung="model:small"), Scripted([(RIGHT,)], rung="model:large")
    second = await garage.heal("t2", small, large)

    assert isinstance(second, Repair), second
    assert garage.steps()[:3] == ["climb", "diagnose", "propose"], "nothing before the round is done again"
    assert not small.seen, "the rung that was chosen is asked next"
    assert "Look at the sign." in large.seen[0].hints
    assert large.seen[0].iteration == 2
    assert [iteration.title for iteration in second.log.iterations] == ["changes calc.py"] * 2
    assert [iteration.number for iteration in second.log.iterations] == [1, 2]
    assert f"{CAME_FROM}." in second.log.notes
    assert await garage.heal("t1", model) == first, "the source is as it was"


async def test_a_fork_from_the_first_round_has_tried_nothing(garage: Garage) -> None:
    await garage.heal("t1", Scripted([(WRONG,)]))
    await garage.fork(1)
    rung = Scripted([(RIGHT,)])
    healed = await garage.heal("t2", rung)
    assert isinstance(healed, Repair)
    assert rung.seen[0].tried == frozenset()
    assert rung.seen[0].lessons == ()


async def test_where_the_ladder_ended_a_fork_can_go_on_with_another_rung(garage: Garage) -> None:
    ended = await garage.heal("t1", Scripted([(WRONG,)]))
    assert isinstance(ended, NoRepair)
    await garage.fork(2, rung="model:large")
    large = Scripted([(RIGHT,)], rung="model:large")
    healed = await garage.heal("t2", Scripted([]), large)
    assert isinstance(healed, Repair), healed
    assert len(large.seen[0].tried) == 1


async def test_a_rung_that_may_not_climb_is_said_so(garage: Garage) -> None:
    await garage.heal("t1", Scripted([(WRONG,)]))
    await garage.fork(1, rung="model:large")
    rungs = (Scripted([(RIGHT,)]), Scripted([], rung="model:large"))
    healed = await garage.heal("t2", *rungs, policy=Policy(rungs=("patterns",), min_confidence=0.0))
    assert isinstance(healed, Repair)
    assert any("`model:large` was requested, but is not" in note for note in healed.log.notes)


@pytest.mark.parametrize(
    ("iteration", "words"), [(3, "iterations 1 to 2, not before iteration 3"), (99, "not before iteration 99")]
)
async def test_a_round_that_there_was_not_is_named(garage: Garage, iteration: int, words: str) -> None:
    await garage.heal("t1", Scripted([(WRONG,)]))
    with pytest.raises(CannotFork, match=words):
        await garage.fork(iteration)
    assert await garage.saver.aget_tuple(RunnableConfig(configurable={"thread_id": "t2"})) is None


async def test_what_is_gone_cannot_be_forked(garage: Garage) -> None:
    await garage.heal("t1", Scripted([(WRONG,)]))
    await garage.saver.adelete_thread("t1")
    with pytest.raises(CannotFork, match="its checkpoints are gone"):
        await garage.fork(1)


async def test_checkpoints_of_another_flow_cannot_be_forked(garage: Garage) -> None:
    async def step(state: State, work: Work) -> State:
        return {}

    await garage.heal("t1", Scripted([(WRONG,)]))
    with pytest.raises(CannotFork, match="other extensions"):
        await garage.fork(1, opinions=(Opinion("taste", step),))
