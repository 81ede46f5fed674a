"""A proven change that is too unsure is not published: the next one gets its turn, and people are shown the likeliest."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from agent.contract import events, words
from agent.contract.outcome import NoRepair, Outcome, Repair
from agent.contract.proposal import Candidate, Edits
from agent.contract.task import Policy
from agent.gate import confidence
from agent.gate.confidence import AGAINST, Confidence
from agent.models.router import Models
from agent.models.values import ModelSettings
from agent.nodes.weigh import MOST_UNSURE
from agent.proposer import Proposal, Situation
from agent.state import Contest, Objection, Opinion, State, Work, pack
from tests.agent.workbench import RIGHT, SAMPLE, Bench, Scripted, change
from tests.standins.model import ScriptedModel

pytestmark = pytest.mark.usefixtures("remembered_runs")

DEMANDING = Policy(min_confidence=1.0)
RIGHT_TITLE = "changes calc.py"
NATURAL = change("a - b", "b + a")
SUMS = tuple(change("a - b", text) for text in ("sum((a, b))", "a - -b", "b - -a", "sum([a, b])", "sum([b, a])"))


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@dataclass
class WithPriors:
    """A rung that believes in its changes to different degrees."""

    priors: dict[float, Edits]
    rung: str = "patterns"
    seen: list[Situation] = field(default_factory=list)

    def can_help(self, situation: Situation) -> str | None:
        return None if situation.round == 1 else "nothing more"

    async def propose(self, situation: Situation) -> Proposal:
        made = tuple(Candidate(self.rung, edits, f"prior {prior}", prior=prior) for prior, edits in self.priors.items())
        return Proposal(made, len(made), len(made))


async def test_an_unsure_change_is_shown_and_not_published(bench: Bench) -> None:
    result = await bench.heal(Scripted([(RIGHT,)]), policy=DEMANDING)
    assert isinstance(result, NoRepair)
    assert result.outcome is Outcome.GAVE_UP
    (suspect,) = result.suspects
    assert suspect.edits == RIGHT
    assert suspect.evidence.checks, "it is proven like one that is published"
    assert result.reason == f"Changes calc.py ({words.percent(suspect.confidence)} sure; a pull request needs 100%)."
    assert result.next_step
    (opinion,) = [each for each in bench.of(events.Opined) if each.step == "weigh"]
    assert not opinion.accepted
    assert opinion.text.startswith("Not accepted because it is less sure than 100%: "), "where nothing is published, too"
    assert bench.steps().count("prove") == 1


async def test_a_change_that_is_sure_enough_is_published(bench: Bench) -> None:
    result = await bench.heal(Scripted([(RIGHT,)]))
    assert isinstance(result, Repair)
    assert result.confidence >= Policy().least("patterns", clear=True)
    assert result.signals["lines"] > 0


@pytest.mark.parametrize("against", [None, *AGAINST])
async def test_a_change_of_the_search_needs_less_if_there_is_no_model_and_nothing_speaks_against_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, against: str | None
) -> None:
    signals = {name: float(name == against) for name in AGAINST}
    monkeypatch.setattr(confidence, "estimate", lambda *_, **__: Confidence(0.7, (), signals))
    result = await bench.heal(Scripted([(RIGHT,)]))
    if against:
        assert isinstance(result, NoRepair)
        assert "70% sure; a pull request needs 85%" in result.reason
    else:
        assert isinstance(result, Repair)


async def test_a_change_of_the_search_needs_as_much_as_others_if_a_model_could_do_better(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(confidence, "estimate", lambda *_, **__: Confidence(0.7, (), {"doubts": 0.0}))
    async with ScriptedModel(lambda _: '{"accept": true, "reason": "It is right."}') as server:
        models = Models(ModelSettings("openai/scripted", server.openai_url, "k", 30.0))
        result = await bench.heal(Scripted([(RIGHT,)]), models=models)
    assert isinstance(result, NoRepair)
    assert "needs 85%" in result.reason


@pytest.mark.long
async def test_a_later_rung_gets_its_turn_after_an_unsure_change(bench: Bench) -> None:
    asked = Scripted([(NATURAL,)], rung="model:scripted")
    result = await bench.heal(Scripted([(RIGHT,)]), asked, policy=DEMANDING)
    assert isinstance(result, NoRepair)
    assert len(asked.seen) == 1
    assert {each.edits for each in result.suspects} == {RIGHT, NATURAL}


@pytest.mark.long
async def test_an_unsure_change_counts_as_another_that_passes(bench: Bench) -> None:
    result = await bench.heal(Scripted([(RIGHT,)]), Scripted([(NATURAL,)], rung="model:m"), policy=DEMANDING)
    assert isinstance(result, NoRepair)
    first, second = sorted(result.suspects, key=lambda each: each.alternatives)
    assert (first.edits, first.alternatives, first.choices) == (RIGHT, 0, ())
    assert (second.edits, second.alternatives, second.choices) == (NATURAL, 1, (RIGHT_TITLE,))


async def test_the_likeliest_suspect_comes_first(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confidence, "estimate", lambda candidate, *_, **__: Confidence(candidate.prior, ()))
    rungs = WithPriors({0.1: RIGHT}, rung="codemod"), WithPriors({0.9: NATURAL}, rung="tools")
    result = await bench.heal(*rungs, policy=Policy(min_confidence=1.0, rungs=("codemod", "tools")))
    assert isinstance(result, NoRepair)
    sure = [each.confidence for each in result.suspects]
    assert sure == sorted(sure, reverse=True)
    assert result.suspects[0].edits == NATURAL


async def test_no_change_is_surer_than_a_likelier_one_of_the_same_search(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """One stands alone for a moment where the other had rivals, but at most one of them is meant."""

    def estimate(candidate: Candidate, *_: object, **__: object) -> Confidence:
        return Confidence(0.6 if candidate.prior == 0.9 else 0.95, ())

    monkeypatch.setattr(confidence, "estimate", estimate)
    result = await bench.heal(WithPriors({0.9: change("a - b", "b + 2"), 0.1: RIGHT}), policy=Policy(min_confidence=0.9))
    assert isinstance(result, NoRepair)
    assert [(each.title, each.confidence) for each in result.suspects] == [("prior 0.9", 0.6), ("prior 0.1", 0.6)]
    assert result.suspects[1].doubts == ("a likelier change passes too: prior 0.9",)


@pytest.mark.long
async def test_only_some_unsure_changes_of_a_search_are_proven(bench: Bench) -> None:
    result = await bench.heal(Scripted([SUMS]), files=SAMPLE, policy=DEMANDING)
    assert isinstance(result, NoRepair)
    assert len(result.suspects) == MOST_UNSURE < len(SUMS)
    assert bench.steps().count("prove") == MOST_UNSURE


async def test_other_changes_that_pass_are_named_as_a_choice_unless_they_behave_the_same(bench: Bench) -> None:
    result = await bench.heal(WithPriors({0.9: RIGHT, 0.2: NATURAL, 0.1: change("a - b", "b + 2")}), policy=DEMANDING)
    assert isinstance(result, NoRepair)
    first = result.suspects[0]
    assert (first.choices, first.alternatives) == (("prior 0.1",), 1)


async def test_a_change_that_was_rejected_after_an_unsure_one_is_no_choice(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = change("a - b", "b + 2")

    async def object_to(state: State, work: Work) -> Contest:
        candidate = await work.context.recall(Candidate, state["winner"][0])
        return {"objection": pack(Objection("taste", "no"))} if candidate.edits == other else {}

    monkeypatch.setattr(confidence, "estimate", lambda candidate, *_, **__: Confidence(candidate.prior, ()))
    rung = WithPriors({0.6: RIGHT, 0.5: other})
    result = await bench.heal(rung, policy=Policy(min_confidence=0.9), opinions=(Opinion("taste", object_to),))
    assert isinstance(result, NoRepair)
    (suspect,) = result.suspects
    assert (suspect.edits, suspect.choices, suspect.alternatives) == (RIGHT, (), 0)
    assert "(60% sure" in result.reason


async def test_a_model_that_finds_what_the_search_was_unsure_of_is_another_witness(bench: Bench) -> None:
    policy = Policy(min_confidence=1.0, min_model_confidence=0.1)
    model = Scripted([(RIGHT,), (RIGHT,)], rung="model:m")
    result = await bench.heal(Scripted([(RIGHT,)]), model, policy=policy)
    assert isinstance(result, Repair)
    assert result.log.iterations[-1].rung == "model:m"
    assert result.edits == RIGHT
    (seen,) = model.seen
    assert not seen.earlier, "it is no witness if it is shown the change"
    assert not seen.lessons


async def test_what_a_model_was_unsure_of_too_is_not_judged_a_third_time(bench: Bench) -> None:
    model = Scripted([(RIGHT,), (RIGHT,)], rung="model:m")
    result = await bench.heal(Scripted([(RIGHT,)]), model, policy=DEMANDING)
    assert isinstance(result, NoRepair)
    assert [each.edits for each in result.suspects] == [RIGHT]
    assert bench.steps().count("prove") == 2
