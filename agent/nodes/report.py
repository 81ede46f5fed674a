"""How it ended: the repair with its evidence, or one outcome of the closed list with a sentence and a next step."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from agent import words
from agent.challenge.judgement import Challenged
from agent.checks.oracle import Verification
from agent.contract.events import Ended
from agent.contract.memory import Recollection, signature, worth_keeping
from agent.contract.outcome import Evidence, NoRepair, Outcome, Repair
from agent.contract.proposal import Candidate, Diagnosis, Span
from agent.contract.usage import RungCost
from agent.contract.verdicts import Oracle
from agent.diagnosis import evidence as diagnosis
from agent.edits.changes import diff, digest
from agent.gate import confidence
from agent.guard import rules as guard
from agent.report import endings
from agent.report.endings import Ending
from agent.report.reflection import log_of, told
from agent.state import State, Work, red_of, spent, unpack

MEMORABLE = 8_000  # characters of a repair's diff that are remembered
NAMED = 5  # failing ids, and suspicious places, that a person is told when there is no repair


async def report(state: State, work: Work) -> State:
    """Puts `Repair` or `NoRepair` into the blobs, and what was learned into the memory."""
    if state.get("winner") and "ending" not in state:
        return await _repaired(state, work)
    known, suspects = await _known(state, work), await _suspects(state, work)
    ending = unpack(Ending, state["ending"]) if "ending" in state else _ending(state, work, known, suspects)
    if known is not None and not state.get("diagnosis"):  # a model's was told when it was made
        await work.context.emit(diagnosis.event(known))
    log = await log_of(state, work.context, None, known)
    if "oracle_ref" in state:
        ids = [str(failure.id) for failure in await red_of(state, work.context)]
        log = replace(log, notes=(f"Red here: {endings.named(ids, NAMED)}.", *_places(suspects), *log.notes))
    log = replace(log, notes=(*log.notes, *work.task.approximated))
    result = NoRepair(ending.outcome, ending.reason, ending.next_step, spent(state), log, ending.flakiness)
    await _keep_in_memory(state, work, Recollection(work.task.id, "", ending.outcome, log.lessons))
    await work.context.emit(Ended(text=ending.reason, outcome=ending.outcome, reason=ending.reason, next_step=ending.next_step))
    return {"result": ["no_repair", await work.context.keep(result)]}


async def _repaired(state: State, work: Work) -> State:
    ref, packed = state["winner"]
    candidate, verification = await work.context.recall(Candidate, ref), unpack(Verification, packed)
    believed = unpack(Diagnosis, state["diagnosis"]) if state.get("diagnosis") else None
    known = diagnosis.of_repair(await red_of(state, work.context), candidate, believed)
    if believed is None or diagnosis.event(known) != diagnosis.event(believed):
        await work.context.emit(diagnosis.event(known))
    shown = await asyncio.to_thread(diff, candidate.edits)
    last = await told(candidate, verification, state["iteration"])
    alternatives = max(state.get("alternatives", 0), await _others(state, work, candidate))
    challenged = unpack(Challenged, state["challenged"]) if state.get("challenged") else Challenged()
    beside = guard.doubts(candidate, await work.context.recall(Oracle, state["oracle_ref"]))
    challenged = replace(challenged, doubts=(*challenged.doubts, *beside))
    sure = confidence.estimate(candidate, alternatives, state.get("degraded", []), challenged)
    log = await log_of(state, work.context, last, known)
    environment, approximated = state.get("proven_in") or (work.task.environment, work.task.approximated)
    result = Repair(
        edits=candidate.edits,
        title=candidate.title,
        diagnosis=known,
        evidence=Evidence(verification.evidence, environment, tuple(approximated)),
        confidence=sure.value,
        usage=spent(state),
        log=log,
        alternatives=alternatives,
        doubts=sure.doubts,
    )
    await _keep_in_memory(
        state, work, Recollection(work.task.id, "", Outcome.HEALED, log.lessons, candidate.title, shown[:MEMORABLE])
    )
    reason = f"Proven red, green, red: {candidate.title}"
    await work.context.emit(
        Ended(text=reason, outcome=Outcome.HEALED, reason=reason, next_step="Review the change and merge it.")
    )
    return {"result": ["repair", await work.context.keep(result)]}


async def _others(state: State, work: Work, winner: Candidate) -> int:
    """How many other changes were judged green and did not win."""
    green = [await work.context.recall(Candidate, ref) for ref, _ in state.get("passed", [])]
    return len({digest(each.edits) for each in green} - {digest(winner.edits)})


async def _keep_in_memory(state: State, work: Work, recollection: Recollection) -> None:
    """Only what was red here can be met again."""
    if work.context.memory is not None and "oracle_ref" in state and worth_keeping(recollection):
        looks = signature(await red_of(state, work.context))
        await work.context.memory.keep(replace(recollection, signature=looks))


async def _known(state: State, work: Work) -> Diagnosis | None:
    """What is believed to be wrong, where anything was red at all."""
    if state.get("diagnosis"):
        return unpack(Diagnosis, state["diagnosis"])
    return diagnosis.from_verdicts(await red_of(state, work.context)) if "oracle_ref" in state else None


async def _suspects(state: State, work: Work) -> tuple[Span, ...]:
    return await work.context.recall(tuple[Span, ...], state["suspects_ref"]) if "suspects_ref" in state else ()


def _places(suspects: tuple[Span, ...]) -> tuple[str, ...]:
    told = "; ".join(f"{words.place(span)} ({span.reason})" for span in suspects[:NAMED])
    return (f"Places to look at, the likeliest first: {told}.",) if told else ()


def _ending(state: State, work: Work, known: Diagnosis | None, suspects: tuple[Span, ...]) -> Ending:
    refused = state.get("refused", [])
    judged = len(state.get("iterations", []))
    if refused and len(refused) == judged and set(refused) == {guard.TESTS}:
        return endings.needs_test_change(known.cause if known else "unknown.")
    bound = work.ledger.spent_up() if state.get("rung", 0) < len(work.ladder) else None
    if bound is None and (bound := work.ledger.model_spent_up()) is None:
        return endings.gave_up(judged, [unpack(RungCost, packed) for packed in state.get("rungs", [])], suspects)
    return endings.out_of_budget(bound, judged)
