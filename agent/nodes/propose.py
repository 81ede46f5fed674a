"""Ask the current rung of the ladder for changes. Rungs that cannot help are skipped, and the log says why."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from agent import words
from agent.edits import diff, digest
from agent.events import AnyEvent, Degraded, ModelCalled, Proposed, RungSpent
from agent.model import ModelError
from agent.proposers.base import Proposal, Situation
from agent.state import State, Work, pack, remember, unpack
from agent.task import CheckRun, Diagnosis, Oracle, RungCost, Span, Usage
from sandbox.base import DeadlinePassed, LimitExceeded

FRUITLESS = 2  # rounds in a row without anything new to judge, after which a rung is left
GRACE = 20.0  # seconds that a rung may run over its time before it is stopped


async def propose(state: State, work: Work) -> State:
    """Raises `SandboxError` when the sandbox is lost; a model's error is noted and counts as a fruitless round."""
    context, rung = work.context, state["rung"]
    proposer = work.ladder[rung]
    situation = await situation_of(state, work)
    if (reason := proposer.can_help(situation)) is not None:
        return await _left(work, rung, proposer.rung, reason)
    if proposer.rung.startswith("model") and (bound := work.ledger.model_spent_up()) is not None:
        return await _left(work, rung, proposer.rung, bound)

    began = context.monotonic()
    proposal = await _ask(work, rung, situation)
    cost = RungCost(
        proposer.rung, context.monotonic() - began, proposal.tried, proposal.plausible, proposal.usage, proposal.note
    )
    await _emit_cost(work, cost)

    fresh = {digest(candidate.edits): candidate for candidate in proposal.candidates}
    fresh = {name: candidate for name, candidate in fresh.items() if name not in situation.tried}
    for candidate in fresh.values():
        text = f"Proposed: {candidate.title}"
        shown = diff(candidate.edits)[:20_000]
        await context.emit(
            Proposed(text=text, rung=candidate.rung, title=candidate.title, diff=shown, iteration=situation.iteration)
        )
    lessons = state.get("lessons", [])
    if proposal.candidates and not fresh:
        lessons = remember(state, "The same change as before was proposed again; propose something else.")
    elif not proposal.candidates and not proposal.exhausted and proposal.note:
        lessons = remember(state, proposal.note)
    fruitless = 0 if fresh else state.get("fruitless", 0) + 1
    is_spent = proposal.exhausted or fruitless >= FRUITLESS
    return {
        "pending": [await context.keep(candidate) for candidate in fresh.values()],
        "alternatives": max(0, proposal.plausible - 1),
        "iteration": situation.iteration,
        "rung": rung + 1 if is_spent else rung,
        "fruitless": 0 if is_spent else fruitless,
        "rungs": [pack(cost)],
        "usage": [pack(proposal.usage)],
        "lessons": lessons,
    }


async def situation_of(state: State, work: Work) -> Situation:
    """What a rung may know now. The seconds leave room for the gate, and for the rungs that come after."""
    context = work.context
    base = await context.recall(tuple[CheckRun, ...], state["base_ref"])
    rungs_left = max(1, len(work.ladder) - state["rung"])
    gate = 3 * sum(run.seconds for run in base)
    return Situation(
        sandbox=work.task.sandbox,
        runner=work.runner,
        oracle=await context.recall(Oracle, state["oracle_ref"]),
        red=base,
        suspects=await context.recall(tuple[Span, ...], state["suspects_ref"]),
        policy=work.task.policy,
        emit=context.emit,
        seconds=max(1.0, (work.ledger.seconds_left() - gate) / rungs_left),
        diagnosis=unpack(Diagnosis, state["diagnosis"]) if "diagnosis" in state else None,
        lessons=tuple(state.get("lessons", [])),
        hints=work.task.hints,
        tried=frozenset(state.get("tried", [])),
        iteration=state["iteration"] + 1,
    )


async def _ask(work: Work, rung: int, situation: Situation) -> Proposal:
    """A rung's answer; its errors and its time limit as values, with what it had spent until then."""
    proposer = work.ladder[rung]
    spent = Usage()

    async def emit(event: AnyEvent) -> None:
        nonlocal spent
        if isinstance(event, ModelCalled):
            spent += Usage(event.tokens_in, event.tokens_out, 1, event.cost)
        await situation.emit(event)

    try:
        async with asyncio.timeout(situation.seconds + GRACE):
            return await proposer.propose(replace(situation, emit=emit))
    except ModelError as error:
        why, proposal = str(error), Proposal(usage=error.usage, note=str(error), exhausted=not error.worth_another_try)
    except TimeoutError:
        why = f"it did not answer within {situation.seconds + GRACE:.0f} s"
        if proposer.rung.startswith("model"):
            spent += Usage(calls=1, cost=None)  # the one that was waited for
        proposal = Proposal(usage=spent, note=why)
    except (LimitExceeded, DeadlinePassed) as error:
        why, proposal = str(error), Proposal(usage=spent, note=str(error))
    await work.context.emit(Degraded(text=f"From {words.rung(proposer.rung)} came nothing: {why}", step="propose", why=why))
    return proposal


async def _left(work: Work, rung: int, name: str, reason: str) -> State:
    cost = RungCost(name, 0.0, 0, 0, Usage(), reason)
    await _emit_cost(work, cost)
    return {"rung": rung + 1, "fruitless": 0, "pending": [], "rungs": [pack(cost)]}


async def _emit_cost(work: Work, cost: RungCost) -> None:
    who, note = words.rung(cost.rung), f" ({cost.note})" if cost.note else ""
    await work.context.emit(
        RungSpent(
            text=f"{who[0].upper()}{who[1:]} {words.effort(cost)}{note}",
            rung=cost.rung,
            seconds=cost.seconds,
            tried=cost.tried,
            passed=cost.passed,
            tokens=cost.usage.tokens_in + cost.usage.tokens_out,
            cost=cost.usage.cost,
            note=cost.note,
        )
    )
