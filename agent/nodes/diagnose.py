"""What is believed to be wrong, before a model proposes. Without a usable answer the verdicts have to tell it."""

from __future__ import annotations

from dataclasses import replace

from agent import words
from agent.contract.outcome import Iteration
from agent.contract.usage import Usage
from agent.debugger.debugger import Debugger
from agent.diagnosis import evidence as diagnosis
from agent.models.values import ModelError
from agent.nodes.propose import situation_of
from agent.proposer import Strategist
from agent.state import State, Work, fell_back, pack, red_of


async def diagnose(state: State, work: Work) -> State:
    """Sets the diagnosis, and the strategies that follow from it.

    Raises `SandboxError` when the sandbox is lost; a model's error makes the diagnosis weaker, never fails the attempt.
    """
    context, proposer = work.context, work.ladder[state["rung"]]
    red = await red_of(state, context)
    found, usage, fallen = diagnosis.from_verdicts(red), Usage(), State()
    situation = await situation_of(state, work)
    if context.models is not None:
        history = [await context.recall(Iteration, ref) for ref in state.get("iterations", [])]
        debugger = Debugger(context.models, proposer.rung.partition(":")[2], situation, history)
        try:
            found, usage = await debugger.conclude()
        except ModelError as error:
            usage = error.usage
            fallen = await fell_back(work, "diagnose", f"No diagnosis by the model: {error}")
    await context.emit(diagnosis.event(found, f"The cause, as {_by(found.by)}: {found.cause}"))
    update: State = {"diagnosis": pack(found), "usage": [pack(usage)], **fallen}
    if isinstance(proposer, Strategist):
        update["strategies"] = list(proposer.strategies(replace(situation, diagnosis=found)))
    return update


def _by(by: str) -> str:
    return "the failing verdicts tell it" if by == diagnosis.BY_VERDICTS else f"{words.rung(by)} sees it"
