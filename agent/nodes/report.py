"""How it ended: the repair with its evidence, or one outcome of the closed list with a sentence and a next step."""

from __future__ import annotations

import math
from dataclasses import replace

from agent import diagnosis, endings, guard, words
from agent.edits import changed_lines, diff
from agent.endings import Ending
from agent.events import Ended
from agent.oracle import Verification, failures
from agent.reflection import log_of
from agent.state import State, Work, spent, unpack
from agent.task import (
    Candidate,
    CheckRun,
    Diagnosis,
    Evidence,
    Failure,
    Iteration,
    NoRepair,
    Oracle,
    Outcome,
    Repair,
    RungCost,
    Span,
)

NAMED = 5  # failing ids, and suspicious places, that a person is told when there is no repair


async def report(state: State, work: Work) -> State:
    """Puts `Repair` or `NoRepair` into the blobs."""
    if (packed := state.get("verification")) and (verification := unpack(Verification, packed)).passed:
        return await _repaired(state, work, verification)
    known, suspects = await _known(state, work), await _suspects(state, work)
    ending = unpack(Ending, state["ending"]) if "ending" in state else _ending(state, work, known, suspects)
    log = await log_of(state, work.context, None, known)
    if "oracle_ref" in state:
        ids = [str(failure.id) for failure in await _red(state, work)]
        log = replace(log, notes=(f"Red here: {endings.named(ids, NAMED)}.", *_places(suspects), *log.notes))
    result = NoRepair(ending.outcome, ending.reason, ending.next_step, spent(state), log)
    await work.context.emit(Ended(text=ending.reason, outcome=ending.outcome, reason=ending.reason, next_step=ending.next_step))
    return {"result": ["no_repair", await work.context.keep(result)]}


async def _repaired(state: State, work: Work, verification: Verification) -> State:
    candidate = await work.context.recall(Candidate, state["judged_ref"])
    if candidate.rung.startswith("model") and "diagnosis" in state:
        known = unpack(Diagnosis, state["diagnosis"])
    else:
        known = diagnosis.from_verdicts(await _red(state, work), candidate)
    last = Iteration(state["iteration"], candidate.rung, candidate.title, diff(candidate.edits), verification.reason)
    alternatives = state.get("alternatives", 0)
    result = Repair(
        edits=candidate.edits,
        title=candidate.title,
        diagnosis=known,
        evidence=Evidence(verification.evidence, work.task.environment),
        confidence=confidence(candidate, alternatives),
        usage=spent(state),
        log=await log_of(state, work.context, last, known),
        alternatives=alternatives,
    )
    reason = f"Proven red, green, red: {candidate.title}"
    await work.context.emit(
        Ended(text=reason, outcome=Outcome.HEALED, reason=reason, next_step="Review the change and merge it.")
    )
    return {"result": ["repair", await work.context.keep(result)]}


def confidence(candidate: Candidate, alternatives: int) -> float:
    """0..1: how likely the change is right and not only green.

    Begins at what was measured for a single plausible patch of the search (33 of 36), or 0.85 for a model's; each other
    plausible change takes off 3 % (44 of 56 at eight), each ten changed lines 5 %, and the proposer's own prior up to a tenth.
    """
    start = 0.85 if candidate.rung.startswith("model") else 0.92
    shared = math.pow(0.97, min(alternatives, 10))
    size = math.pow(0.95, changed_lines(candidate.edits) / 10)
    return round(min(1.0, max(0.05, start * shared * size * (0.9 + 0.1 * candidate.prior))), 2)


async def _known(state: State, work: Work) -> Diagnosis | None:
    """What is believed to be wrong, where anything was red at all."""
    if "diagnosis" in state:
        return unpack(Diagnosis, state["diagnosis"])
    return diagnosis.from_verdicts(await _red(state, work)) if "oracle_ref" in state else None


async def _suspects(state: State, work: Work) -> tuple[Span, ...]:
    return await work.context.recall(tuple[Span, ...], state["suspects_ref"]) if "suspects_ref" in state else ()


def _places(suspects: tuple[Span, ...]) -> tuple[str, ...]:
    told = "; ".join(f"{words.place(span)} ({span.reason})" for span in suspects[:NAMED])
    return (f"Places to look at, the likeliest first: {told}.",) if told else ()


async def _red(state: State, work: Work) -> tuple[Failure, ...]:
    oracle = await work.context.recall(Oracle, state["oracle_ref"])
    base = await work.context.recall(tuple[CheckRun, ...], state["base_ref"])
    return failures(base, (id_ for ids in oracle.must_turn.values() for id_ in ids))


def _ending(state: State, work: Work, known: Diagnosis | None, suspects: tuple[Span, ...]) -> Ending:
    refused = state.get("refused", [])
    judged = len(state.get("iterations", []))
    if refused and len(refused) == judged and set(refused) == {guard.TESTS}:
        return endings.needs_test_change(known.cause if known else "unknown.")
    bound = work.ledger.spent_up() if state["rung"] < len(work.ladder) else None
    if bound is None and (bound := work.ledger.model_spent_up()) is None:
        return endings.gave_up(judged, [unpack(RungCost, packed) for packed in state.get("rungs", [])], suspects)
    return endings.out_of_budget(bound, judged)
