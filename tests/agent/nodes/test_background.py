"""A search that finds nothing within its head start goes on while a model is asked."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from agent.contract import events
from agent.contract.outcome import NoRepair, Repair
from agent.contract.proposal import Candidate, Edits
from agent.contract.task import Policy
from agent.models.router import Models
from agent.models.values import ModelSettings
from agent.proposer import Proposal, Situation
from sandbox.base import SandboxLost
from tests.agent.workbench import RIGHT, WRONG, Bench, Scripted, change
from tests.standins.model import Asked, Reply, ScriptedModel

pytestmark = pytest.mark.usefixtures("remembered_runs")

QUICK = Policy(head_start=0.1, min_confidence=0.0)
LONG = change("a - b", "sum((a, b))")


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@dataclass
class Searching:
    """A search that takes its time, and tells how it ended."""

    found: tuple[Edits, ...] = ()
    seconds: float = 60.0
    plausible: int = 0
    error: Exception | None = None
    rung: str = "patterns"
    ends: list[str] = field(default_factory=list)

    def can_help(self, situation: Situation) -> str | None:
        return None

    async def propose(self, situation: Situation) -> Proposal:
        try:
            await asyncio.sleep(self.seconds)
        except asyncio.CancelledError:
            self.ends.append("stopped")
            raise
        self.ends.append("ended")
        if self.error is not None:
            raise self.error
        made = tuple(Candidate(self.rung, edits, f"found {at}") for at, edits in enumerate(self.found))
        return Proposal(made, 7, max(self.plausible, len(made)), note="searched")


class Slow(Scripted):
    """A model that answers after the searches of these tests have ended."""

    async def propose(self, situation: Situation) -> Proposal:
        await asyncio.sleep(1.5)
        return await super().propose(situation)


def model(*rounds: tuple[Edits, ...]) -> Scripted:
    return Scripted(list(rounds), rung="model:scripted")


@pytest.mark.long
async def test_the_model_does_not_wait_and_the_search_is_stopped_when_it_heals(bench: Bench) -> None:
    search = Searching()
    async with asyncio.timeout(30):
        result = await bench.heal(search, model((RIGHT,)), policy=QUICK)
    assert isinstance(result, Repair), result
    assert search.ends == ["stopped"]
    (told,) = [event for event in bench.of(events.RungSpent) if event.rung == "patterns"]
    assert re.fullmatch(r"Mutation search found nothing in 0\.\d s \(it goes on while a model is asked\)", told.text)
    assert [cost.rung for cost in result.log.rungs] == ["patterns", "model:scripted"]


@pytest.mark.long
async def test_what_the_search_finds_meanwhile_is_judged_after_the_models_failure(bench: Bench) -> None:
    search = Searching((RIGHT,), seconds=1.0)
    result = await bench.heal(search, model((WRONG,), (WRONG,), (WRONG,), (WRONG,)), policy=QUICK)
    assert isinstance(result, Repair), result
    assert search.ends == ["ended"]
    assert result.log.iterations[-1].rung == "patterns"
    assert [cost.tried for cost in result.log.rungs if cost.rung == "patterns"] == [0, 7]


@pytest.mark.long
async def test_what_the_search_finds_while_the_model_answers_is_judged_beside_its_change(bench: Bench) -> None:
    two_lines = change("    return a - b", "    total = a\n    return total + b")
    search, asked = Searching((RIGHT,), seconds=0.5, plausible=2), Slow([(two_lines,)], rung="model:scripted")
    result = await bench.heal(search, asked, policy=QUICK)
    assert isinstance(result, Repair), result
    assert result.edits == two_lines, "a model means its change, although the one that was found by trying is smaller"
    assert result.choices == (), "the other change behaves the same"
    assert [cost.rung for cost in result.log.rungs] == ["patterns", "patterns", "model:scripted"]
    assert result.alternatives == 0, "nobody ran everything with what the search found"
    assert len(bench.of(events.Verified)) == 1, "the model's change did not wait for the run of the other one"


@pytest.mark.long
async def test_a_change_that_the_search_finds_too_is_the_models(bench: Bench) -> None:
    search, asked = Searching((RIGHT,), seconds=0.5), Slow([(RIGHT,)], rung="model:scripted")
    result = await bench.heal(search, asked, policy=QUICK)
    assert isinstance(result, Repair), result
    assert result.log.iterations[-1].rung == "model:scripted", "it comes with an explanation"


async def test_a_search_that_loses_its_sandbox_does_not_lose_the_models_answer(bench: Bench) -> None:
    asked = Slow([(RIGHT,)], rung="model:scripted")
    result = await bench.heal(Searching(seconds=0.3, error=SandboxLost("gone")), asked, policy=QUICK)
    assert isinstance(result, Repair), result
    assert len(asked.seen) == 1, "a model is not paid twice for one answer"


@pytest.mark.long
async def test_a_search_whose_changes_the_review_rejects_makes_way_for_the_model_that_was_asked_before(bench: Bench) -> None:
    found = tuple(change("a - b", f"a + b + 0 * {n}") for n in range(12))
    asked, reviews = model((WRONG,), (RIGHT,)), 0

    def answer(request: Asked) -> Reply:
        nonlocal reviews
        if "You review" not in request.prompt:
            return Reply('{"cause": "it subtracts", "category": "logic", "confidence": 0.9}')
        reviews += 1
        is_found = "0 *" in request.prompt
        return Reply(
            json.dumps({"accept": not is_found, "reason": "it hides a zero" if is_found else "", "input": "add(7, 8)"})
        )

    async with ScriptedModel(answer) as server:
        models = Models(ModelSettings("openai/scripted", server.openai_url, "k", 30.0))
        result = await bench.heal(Searching(found, seconds=0.5), asked, models=models, policy=QUICK)
    assert isinstance(result, Repair), result
    assert result.edits == RIGHT
    assert reviews <= 6, "the two, those that were being run beside them, and the model's"
    assert any("The review rejected 2 changes, so" in note for note in result.log.notes), result.log.notes


@pytest.mark.long
async def test_when_the_model_is_at_its_end_the_search_is_waited_for(bench: Bench) -> None:
    search = Searching((RIGHT,), seconds=3.0)
    result = await bench.heal(search, model((WRONG,)), policy=QUICK)
    assert isinstance(result, Repair), result
    assert result.log.iterations[-1].rung == "patterns"


async def test_the_model_goes_on_after_a_search_that_found_nothing(bench: Bench) -> None:
    asked = model((WRONG,), (RIGHT,))
    result = await bench.heal(Searching(seconds=0.3), asked, policy=QUICK)
    assert isinstance(result, Repair), result
    assert result.log.iterations[-1].rung == "model:scripted"
    assert len(asked.seen) == 2


async def test_within_its_head_start_a_search_is_alone(bench: Bench) -> None:
    asked = model((LONG,))
    result = await bench.heal(Searching((RIGHT,), seconds=0.1), asked, policy=Policy(head_start=20))
    assert isinstance(result, Repair), result
    assert not asked.seen


@pytest.mark.parametrize("following", [(), (Scripted([(RIGHT,)], rung="codemod"),)], ids=["nothing", "no model"])
async def test_without_a_model_next_the_search_is_waited_for(bench: Bench, following: tuple[Scripted, ...]) -> None:
    search = Searching(seconds=0.4)
    await bench.heal(search, *following, policy=Policy(head_start=0.1, rungs=("patterns", "codemod")))
    assert search.ends == ["ended"]


async def test_a_person_who_approves_rounds_is_not_passed_over(bench: Bench) -> None:
    search = Searching(seconds=0.4)
    asked = model((RIGHT,))
    await bench.heal(search, asked, policy=Policy(head_start=0.1, autonomy="review_repairs"))
    assert search.ends == ["ended"]
    assert not asked.seen, "the question comes first"


async def test_a_lost_sandbox_is_not_hidden_by_the_background(bench: Bench) -> None:
    with pytest.raises(SandboxLost):
        await bench.heal(Searching(seconds=0.3, error=SandboxLost("gone")), model((WRONG,)), policy=QUICK)


async def test_a_search_that_was_lost_with_its_process_is_made_again(bench: Bench) -> None:
    """The process dies between two steps: the checkpoint stays, the task does not."""

    class Dying(Scripted):
        async def propose(self, situation: Situation) -> Proposal:
            if not self.seen:
                self.seen.append(situation)
                raise SandboxLost("the process died")
            return await super().propose(situation)

    search, asked = Searching((RIGHT,), seconds=1.0), Dying([(WRONG,)], rung="model:scripted")
    with pytest.raises(SandboxLost):
        await bench.heal(search, asked, policy=QUICK)
    assert search.ends == ["stopped"]
    result = await bench.heal(search, asked, policy=QUICK)
    assert isinstance(result, Repair), result
    assert search.ends == ["stopped", "ended"]
    assert not isinstance(result, NoRepair)
