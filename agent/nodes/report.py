"""How it ended: the repair with its evidence, or one outcome of the closed list with a sentence and a next step."""

from __future__ import annotations

from agent import diagnosis, endings, guard
from agent.edits import changed_lines, diff
from agent.endings import Ending
from agent.events import Ended
from agent.oracle import Verification, failures
from agent.reflection import log_of
from agent.state import State, Work, spent, unpack
from agent.task import Candidate, CheckRun, Diagnosis, Evidence, Iteration, NoRepair, Oracle, Outcome, Repair, RungCost


async def report(state: State, work: Work) -> State:
    """Puts `Repair` or `NoRepair` into the blobs."""
    if (packed := state.get("verification")) and (verification := unpack(Verification, packed)).passed:
        return await _repaired(state, work, verification)
    known = unpack(Diagnosis, state["diagnosis"]) if "diagnosis" in state else await _diagnosis(state, work, None)
    ending = unpack(Ending, state["ending"]) if "ending" in state else _ending(state, work, known)
    log = await log_of(state, work.context, None, known)
    result = NoRepair(ending.outcome, ending.reason, ending.next_step, spent(state), log)
    await work.context.emit(Ended(text=ending.reason, outcome=ending.outcome, reason=ending.reason, next_step=ending.next_step))
    return {"result": ["no_repair", await work.context.keep(result)]}


async def _repaired(state: State, work: Work, verification: Verification) -> State:
    candidate = await work.context.recall(Candidate, state["judged_ref"])
    known = unpack(Diagnosis, state["diagnosis"]) if "diagnosis" in state else None
    if known is None or not candidate.rung.startswith("model"):
        known = await _diagnosis(state, work, candidate)
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
    reason = f"{candidate.title}: verified red, green, red"
    await work.context.emit(
        Ended(text=reason, outcome=Outcome.HEALED, reason=reason, next_step="Review the change and merge it.")
    )
    return {"result": ["repair", await work.context.keep(result)]}


def confidence(candidate: Candidate, alternatives: int) -> float:
    """0..1: how likely the change is right and not only green.

    Begins at what was measured for a single plausible patch of the search (33 of 36), or 0.85 for a model's; each other
    plausible change takes off 3 % (44 of 56 at eight), each ten changed lines 5 %; the proposer's own prior moves it by a tenth.
    """
    start = 0.85 if candidate.rung.startswith("model") else 0.92
    shared = 0.97 ** min(alternatives, 10)
    size = 0.95 ** (changed_lines(candidate.edits) / 10)
    return round(min(1.0, max(0.05, start * shared * size * (0.9 + 0.1 * candidate.prior))), 2)


async def _diagnosis(state: State, work: Work, change: Candidate | None) -> Diagnosis | None:
    if "oracle_ref" not in state:
        return None
    oracle = await work.context.recall(Oracle, state["oracle_ref"])
    base = await work.context.recall(tuple[CheckRun, ...], state["base_ref"])
    red = failures(base, (id_ for ids in oracle.must_turn.values() for id_ in ids))
    return diagnosis.from_verdicts(red, change)


def _ending(state: State, work: Work, known: Diagnosis | None) -> Ending:
    refused = state.get("refused", [])
    judged = len(state.get("iterations", []))
    if refused and len(refused) == judged and set(refused) == {guard.TESTS}:
        return endings.needs_test_change(known.cause if known else "unknown.")
    bound = work.ledger.spent_up() if state["rung"] < len(work.ladder) else None
    if bound is None and (bound := work.ledger.model_spent_up()) is None:
        told = {r.rung: r.note for packed in state.get("rungs", []) if (r := unpack(RungCost, packed)).note}
        return endings.gave_up(judged, [f"{rung}: {note}" for rung, note in told.items()])
    return endings.out_of_budget(bound, judged)
