"""Ends the attempt: with a repair and its evidence, or with an outcome, its sentence and its next step."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from agent.contract import words
from agent.contract.budget import RungCost
from agent.contract.events import Ended, Opined
from agent.contract.last_good import Culprit, Regression
from agent.contract.memory import Recollection, signature, worth_keeping
from agent.contract.outcome import ALL_BUT_EXIT, Iteration, NoRepair, Outcome, ReflectionLog, Repair
from agent.contract.proposal import Diagnosis, Span
from agent.contract.verdicts import Failure, VerdictId
from agent.diagnosis import evidence
from agent.edits.changes import diff
from agent.edits.reversals import taken_back
from agent.guard import rules
from agent.nodes.unsure import needed, unsure_of
from agent.nodes.weigh import repair_of
from agent.report import endings
from agent.report.endings import Ending
from agent.report.reflection import log_of
from agent.state import End, State, Work, red_of, spent, unpack

MEMORABLE = 8_000  # most characters of a repair's diff in the memory
NAMED = 5  # most failing ids, and most suspicious locations, in a report without a repair
FEW = 5  # lines of the change


async def report(state: State, work: Work) -> End:
    """Store `Repair` or `NoRepair` in the blobs, and the lessons in the memory."""
    if state.get("winner") and "ending" not in state:
        return await _repaired(state, work)
    known = await _known(state, work)
    suspects = await work.context.recall(tuple[Span, ...], state["suspects_ref"]) if "suspects_ref" in state else ()
    culprit = await work.context.recall(Culprit, state["culprit_ref"]) if "culprit_ref" in state else None
    log = await log_of(state, work.context, None, known)
    unsure = [_without_rejected(each, log) for each in await unsure_of(state, work)]
    unsure.sort(key=lambda each: -each.confidence)
    if "ending" in state:
        ending = unpack(Ending, state["ending"])
    elif culprit is not None:
        ending = await _broken_by(culprit, state, work, _ending(state, work, known))
    elif unsure:
        ending = endings.unsure(unsure[0], needed(unsure[0], work))
    else:
        since = (await work.context.recall(Regression, state["regression_ref"])).since if "regression_ref" in state else ""
        ending = _ending(state, work, known, suspects, since)
    if known is not None and not state.get("diagnosis"):  # a model's diagnosis was already emitted
        await work.context.emit(evidence.event(known))
    if (near := [each for each in log.iterations if each.result.startswith(ALL_BUT_EXIT)]) and not unsure:
        ending = endings.all_but_the_exit(ending, len(near), near[-1].result)
    if "oracle_ref" in state:
        told = ending.reason if culprit is not None or unsure or known is None else f"{ending.reason} {known.cause}"
        failing = _failing(await red_of(state, work.context), told)
        # A few lines that are known to be the cause say more than suspicions.
        places = () if culprit is not None and culprit.lines <= FEW else _places(suspects)
        log = replace(log, notes=(*failing, *places, *log.notes))
    log = replace(log, notes=(*log.notes, *work.task.approximated))
    partial = None
    if state.get("partial") and not unsure and culprit is None and not near:
        partial = await work.context.recall(Iteration, state["partial"][1])
    result = NoRepair(
        ending.outcome, ending.reason, ending.next_step, spent(state), log, ending.flakiness, culprit, tuple(unsure), partial
    )
    await _keep_in_memory(state, work, Recollection(work.task.id, "", ending.outcome, log.lessons))
    await work.context.emit(Ended(text=ending.reason, outcome=ending.outcome, reason=ending.reason, next_step=ending.next_step))
    return {"result": ["no_repair", await work.context.keep(result)]}


def _without_rejected(suspect: Repair, log: ReflectionLog) -> Repair:
    """Without the choices to which a second opinion has objected since."""
    objected = [each for each in log.iterations if " objects: " in each.result]
    rejected = {each.title for each in objected if not each.result.startswith("weigh objects: ")}
    choices = tuple(title for title in suspect.choices if title not in rejected)
    return replace(suspect, choices=choices, alternatives=suspect.alternatives - (len(suspect.choices) - len(choices)))


async def _repaired(state: State, work: Work) -> End:
    result = await repair_of(state, work)
    believed = unpack(Diagnosis, state["diagnosis"]) if state.get("diagnosis") else None
    if believed is None or evidence.event(result.diagnosis) != evidence.event(believed):
        await work.context.emit(evidence.event(result.diagnosis))
    shown = await asyncio.to_thread(diff, result.edits)
    await _keep_in_memory(
        state, work, Recollection(work.task.id, "", Outcome.HEALED, result.log.lessons, result.title, shown[:MEMORABLE])
    )
    reason = f"Verified: {result.title}"
    await work.context.emit(
        Ended(text=reason, outcome=Outcome.HEALED, reason=reason, next_step="Review the change and merge it.")
    )
    return {"result": ["repair", await work.context.keep(result)]}


async def _broken_by(culprit: Culprit, state: State, work: Work, plain: Ending) -> Ending:
    """The change may be intended if it is mostly this part, if other tests need the part, or if no test was changed with it.

    `plain` is the ending without what is known about the change.
    """
    regression = await work.context.recall(Regression, state["regression_ref"])
    red = await red_of(state, work.context)
    failure = next((each for each in red if str(each.id) in regression.ids), Failure(VerdictId(regression.ids[0]), ""))
    lines, of = await asyncio.to_thread(taken_back, culprit.reversal, regression.reversal)
    may_be_intended = not regression.tests or bool(culprit.breaks) or 2 * lines >= of
    may_be_intended = may_be_intended or plain.outcome is Outcome.NEEDS_TEST_CHANGE
    may_be_intended = may_be_intended and not endings.is_slip(failure)
    failing = len(set(regression.ids) - set(regression.new)) or len(regression.ids)
    ending = endings.broken_by_change(culprit, failure, may_be_intended=may_be_intended, failing=failing)
    if plain.outcome is Outcome.OUT_OF_BUDGET:
        return replace(ending, outcome=plain.outcome, reason=f"{plain.reason} {ending.reason}")
    return ending


async def _keep_in_memory(state: State, work: Work, recollection: Recollection) -> None:
    """Store it in the memory, if a failure was reproduced: only those can be looked up."""
    if work.context.memory is not None and "oracle_ref" in state and worth_keeping(recollection):
        looks = signature(await red_of(state, work.context))
        await work.context.memory.keep(replace(recollection, signature=looks))


async def _known(state: State, work: Work) -> Diagnosis | None:
    """The diagnosis, if anything failed."""
    if state.get("diagnosis") and (known := unpack(Diagnosis, state["diagnosis"])).by != evidence.BY_VERDICTS:
        return known
    return evidence.for_people(await red_of(state, work.context)) if "oracle_ref" in state else None


def _failing(red: Sequence[Failure], told: str) -> tuple[str, ...]:
    """The failing ids, with the messages that `told` does not contain; nothing if it names all ids."""
    names = [words.named([failure.id]) for failure in red]
    if all(name in told for name in names):
        return ()
    shown = [
        f"{name} ({message})" if (message := words.code(failure.message)) not in told and failure.message else name
        for name, failure in zip(names[:NAMED], red, strict=False)
    ]
    rest = f"; and {len(red) - NAMED} more" if len(red) > NAMED else ""
    return (f"Failing: {'; '.join(shown)}{rest}.",)


def _places(suspects: tuple[Span, ...]) -> tuple[str, ...]:
    told = "; ".join(f"{words.location(span)} ({span.reason})" for span in suspects[:NAMED])
    return (f"Suspicious locations, most suspicious first: {told}.",) if told else ()


def _ending(state: State, work: Work, known: Diagnosis | None, suspects: tuple[Span, ...] = (), since: str = "") -> Ending:
    refused = state.get("refused", [])
    judged = len(state.get("iterations", []))
    if refused and len(refused) == judged and set(refused) == {rules.TESTS}:
        return endings.needs_test_change(known.cause if known else "")
    bound = work.ledger.spent_up() if state.get("rung", 0) < len(work.ladder) else None
    if bound is None and (bound := work.ledger.model_spent_up()) is None:
        rungs = [unpack(RungCost, packed) for packed in state.get("rungs", [])]
        opinions = [unpack(Opined, packed) for packed in state.get("opinions", [])]
        # Each of these winners passed the tests.
        objections = [each.reasons[0] for each in opinions if not each.accepted and each.step != "weigh" and each.reasons]
        sure = known is not None and known.by != evidence.BY_VERDICTS and known.confidence >= evidence.UNSURE
        believed = known.places[0] if known is not None and sure and known.places else ""
        return endings.gave_up(judged, rungs, suspects, since, objections=objections, believed=believed)
    return endings.out_of_budget(bound, judged)
