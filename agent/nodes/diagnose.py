"""Diagnoses the failure before a model proposes. Without a usable answer the verdicts decide."""

from __future__ import annotations

from dataclasses import replace

from agent.contract import words
from agent.contract.outcome import Iteration
from agent.contract.rungs import model_name
from agent.contract.usage import Usage
from agent.debugger.debugger import Debugger
from agent.diagnosis import evidence
from agent.models.values import ModelError
from agent.nodes.propose import situation_of
from agent.proposer import Strategist
from agent.state import Direction, State, Work, fell_back, pack, red_of


async def diagnose(state: State, work: Work) -> Direction:
    """Sets the diagnosis, and the strategies that follow from it.

    A model's error weakens the diagnosis and never fails the attempt. Raises `SandboxError` when the sandbox is lost.
    """
    context, proposer = work.context, work.ladder[state["rung"]]
    red = await red_of(state, context)
    found, usage, update = evidence.from_verdicts(red), Usage(), Direction()
    situation = await situation_of(state, work)
    if context.models is not None:
        history = [await context.recall(Iteration, ref) for ref in state.get("iterations", [])]
        debugger = Debugger(context.models, model_name(proposer.rung), situation, history)
        try:
            found, usage = await debugger.conclude()
        except ModelError as error:
            usage = error.usage
            update = await fell_back(work, "diagnose", f"The model gave no diagnosis: {error}")
    await context.emit(evidence.event(found, f"Likely cause, {_by(found.by)}: {found.cause}"))
    update["diagnosis"], update["usage"] = pack(found), [pack(usage)]
    if isinstance(proposer, Strategist):
        update["strategies"] = list(proposer.strategies(replace(situation, diagnosis=found)))
    return update


def _by(by: str) -> str:
    return "inferred from the failures" if by == evidence.BY_VERDICTS else f"according to {words.rung(by)}"
