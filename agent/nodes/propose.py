"""Ask the current rung of the ladder for changes, in one of its strategies; those of a round are asked beside each other."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from agent import words
from agent.contract.events import AnyEvent, Degraded, ModelCalled, Proposed
from agent.contract.memory import Recollection
from agent.contract.outcome import Iteration
from agent.contract.proposal import Diagnosis, Span
from agent.contract.usage import RungCost, Usage
from agent.contract.verdicts import CheckRun, Oracle
from agent.edits.changes import diff, digest
from agent.gate.gate import proof_seconds
from agent.models.values import ModelError
from agent.proposer import Proposal, Situation
from agent.report.costs import tell_cost
from agent.state import Round, State, Work, pack, unpack
from sandbox.base import DeadlinePassed, LimitExceeded

EARLIER = 2  # failed changes that a rung is told of
GRACE = 20.0  # seconds that a rung may run over its time before it is stopped


async def propose(state: State, work: Work) -> State:
    """Raises `SandboxError` when the sandbox is lost; a model's error is noted and counts as a fruitless round."""
    context, proposer = work.context, work.ladder[state["rung"]]
    situation = replace(await situation_of(state, work), strategy=state["strategy"])
    began = context.monotonic()
    proposal = await _ask(work, state["rung"], situation)
    seconds = context.monotonic() - began
    cost = RungCost(proposer.rung, seconds, proposal.tried, proposal.plausible, proposal.usage, proposal.note)
    await tell_cost(work, cost)
    fresh = [candidate for candidate in proposal.candidates if digest(candidate.edits) not in situation.tried]
    for candidate in fresh:
        text = f"Proposed: {candidate.title}"
        shown = (await asyncio.to_thread(diff, candidate.edits))[:20_000]
        await context.emit(
            Proposed(text=text, rung=candidate.rung, title=candidate.title, diff=shown, iteration=situation.iteration)
        )
    repeated = bool(proposal.candidates) and not fresh
    return {
        "proposed": [await context.keep(candidate) for candidate in fresh],
        "rounds": [pack(Round(len(fresh), proposal.plausible, proposal.exhausted, repeated, proposal.note))],
        "rungs": [pack(cost)],
        "usage": [pack(proposal.usage)],
    }


async def situation_of(state: State, work: Work) -> Situation:
    """What a rung may know now. The seconds leave room for the gate, and for the rungs that come after."""
    context = work.context
    base = await context.recall(tuple[CheckRun, ...], state["base_ref"])
    rungs_left = max(1, len(work.ladder) - state["rung"])
    known, memories = state.get("diagnosis"), state.get("memories_ref")
    return Situation(
        sandbox=work.task.sandbox,
        runner=work.runner,
        oracle=await context.recall(Oracle, state["oracle_ref"]),
        red=base,
        suspects=await context.recall(tuple[Span, ...], state["suspects_ref"]),
        policy=work.task.policy,
        emit=context.emit,
        seconds=max(1.0, (work.ledger.seconds_left() - proof_seconds({run.check: run for run in base})) / rungs_left),
        diagnosis=unpack(Diagnosis, known) if known else None,
        lessons=tuple(state.get("lessons", [])),
        earlier=tuple([await context.recall(Iteration, ref) for ref in state.get("iterations", [])[-EARLIER:]]),
        hints=(*work.task.hints, *state.get("guidance", [])),
        memories=await context.recall(tuple[Recollection, ...], memories) if memories else (),
        tried=frozenset(state.get("tried", [])),
        iteration=max(1, state.get("iteration", 0)),
        round=max(1, state.get("round", 0)),
        refuted=tuple(state.get("refuted", [])),
        stuck=state.get("stuck", 0),
        calls=work.ledger.calls_left(),
    )


async def _ask(work: Work, rung: int, situation: Situation) -> Proposal:
    """A rung's answer; its errors and its time limit as values, with what it had spent until then."""
    proposer = work.ladder[rung]
    if proposer.rung.startswith("model") and (bound := work.ledger.model_spent_up()) is not None:
        return Proposal(note=bound)  # the diagnosis was the last that could be paid
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
