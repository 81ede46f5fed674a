"""Weighs the proven winner: a change that is too unsure is not accepted. The next candidate or rung gets its turn.

If none is sure enough, the report shows the likeliest of them as a possible repair, and asks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from agent.challenge.judgement import Challenged
from agent.checks.oracle import Verification
from agent.contract import words
from agent.contract.events import Opined
from agent.contract.last_good import Regression
from agent.contract.outcome import Evidence, Repair
from agent.contract.proposal import Candidate, Diagnosis, is_model
from agent.contract.verdicts import Oracle
from agent.diagnosis import evidence
from agent.edits.changes import digest
from agent.gate import confidence
from agent.guard import reversals, rules
from agent.nodes.guard import questions_of
from agent.nodes.unsure import needed, rung_of, unsure_of
from agent.report.reflection import iteration_of, log_of
from agent.state import Contest, Objection, State, Work, pack, red_of, spent, unpack

MOST_UNSURE = 3  # unsure changes of one search that are proven, before the others are dropped
MOST_CHOICES = 5  # titles of other changes that pass
UNWITNESSED = (
    "nothing beyond the tests that the model was shown speaks for it: no example or test from the specification that passes, "
    "and no review that worked through another input"
)


async def weigh(state: State, work: Work) -> Contest:
    """Objects to a winner that is less sure than the policy demands."""
    found = await repair_of(state, work)
    least = needed(found, work)
    if found.confidence >= least:
        return {}
    context = work.context
    reason = f"it is less sure than {words.percent(least)}: {words.percent(found.confidence)}"
    opined = Opined(text=f"Not accepted because {reason}: {found.title}", step="weigh", title=found.title, accepted=False,
                    reasons=[reason, *found.doubts])  # fmt: skip
    await context.emit(opined)
    # The next proposal can only answer what it is told.
    told = f"{reason}, because {'; '.join(found.doubts)}" if found.doubts else reason
    update: Contest = {"objection": pack(Objection("weigh", told)), "opinions": [pack(opined)]}
    update["unsure_refs"] = [*state.get("unsure_refs", []), await context.keep(found)]
    count = state.get("unsure", 0) + 1
    if count >= MOST_UNSURE:
        return {**update, "unsure": 0, "allowed": [], "passed": []}
    return {**update, "unsure": count}


async def repair_of(state: State, work: Work) -> Repair:
    """The winner as a repair, with its evidence and its confidence."""
    ref, packed = state["winner"]
    candidate, verification = await work.context.recall(Candidate, ref), unpack(Verification, packed)
    believed = unpack(Diagnosis, state["diagnosis"]) if state.get("diagnosis") else None
    known = evidence.of_repair(await red_of(state, work.context), candidate, believed)
    last = await iteration_of(candidate, verification, state["iteration"])
    unsure = await unsure_of(state, work)
    others = await _others(state, work, candidate, unsure)
    oracle = await work.context.recall(Oracle, state["oracle_ref"])
    challenged = unpack(Challenged, state["challenged"]) if state.get("challenged") else Challenged()
    challenged = replace(challenged, doubts=(*challenged.doubts, *rules.doubts(candidate, oracle)))
    # What behaves the same in every compared call is a variant of the winner, and no choice.
    rivals = tuple(title for name, title in others.items() if name not in challenged.alike)
    found = 0 if is_model(candidate.rung) else state.get("alternatives", 0)
    alternatives = max(found, len(others)) - (len(others) - len(rivals))
    failing = sum(map(len, oracle.must_turn.values()))
    reversal, elsewhere = await _beside_the_change(state, work, candidate)
    degraded = state.get("degraded", [])
    asked = (*challenged.questions, *await questions_of(candidate, state, work))
    if (
        is_model(candidate.rung)
        and not challenged.witnesses
        and work.context.models is not None
        and work.task.policy.writes_tests
    ):
        asked = (*asked, UNWITNESSED)
    # It may be the same fault that makes the rest fail: nobody knows whether the change repairs it.
    unfinished = tuple(
        f"what `{each.check}` does after its tests fails with it and without it ({words.code(each.afterwards, 160)})"
        for each in verification.evidence
        if each.afterwards
    )
    sure = confidence.estimate(
        candidate,
        alternatives,
        degraded,
        challenged,
        failing,
        reversal=reversal,
        elsewhere=elsewhere,
        asked=asked,
        unfinished=unfinished,
    )
    value, doubts = sure.value, sure.doubts
    likelier = [each for each in unsure if rung_of(each) == candidate.rung]
    if likelier and not is_model(candidate.rung) and value > (most := min(each.confidence for each in likelier)):
        # One search found both and ranked them, and at most one of them is meant.
        value, doubts = most, (*doubts, f"a likelier change passes too: {likelier[0].title}")
    environment, approximated = state.get("proven_in") or (work.task.environment, work.task.approximated)
    return Repair(
        edits=candidate.edits,
        title=candidate.title,
        diagnosis=known,
        evidence=Evidence(verification.evidence, environment, tuple(approximated)),
        confidence=value,
        usage=spent(state),
        log=await log_of(state, work.context, last, known),
        alternatives=alternatives,
        doubts=doubts,
        choices=rivals[:MOST_CHOICES],
        signals=sure.signals,
    )


async def _others(state: State, work: Work, winner: Candidate, unsure: Sequence[Repair]) -> dict[str, str]:
    """The titles of other patches that passed, by their digests: those that were too unsure, and the winner's rivals.

    What a search has found and nobody has run in full is no alternative to a model's change: most of it breaks other tests.
    """
    passed, allowed = [ref for ref, _ in state.get("passed", [])], state.get("allowed", [])
    rivals = [(ref, await work.context.recall(Candidate, ref)) for ref in (*passed, *allowed)]
    found = [(each.edits, each.title) for each in unsure]
    found += [
        (each.edits, each.title) for ref, each in rivals if ref in passed or is_model(each.rung) or not is_model(winner.rung)
    ]
    return {digest(edits): title for edits, title in found if edits != winner.edits}


async def _beside_the_change(state: State, work: Work, candidate: Candidate) -> tuple[str, str]:
    """What is to be said of a repair beside the change since the last good commit, if that is known: two clauses or ""."""
    if not (ref := state.get("regression_ref")):
        return "", ""
    regression = await work.context.recall(Regression, ref)
    reversal = await asyncio.to_thread(reversals.doubt, candidate, regression)
    return reversal, await asyncio.to_thread(reversals.elsewhere, candidate, regression)
