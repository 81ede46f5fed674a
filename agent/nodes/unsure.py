"""The changes of an attempt that were proven, and not sure enough to be accepted."""

from __future__ import annotations

from agent.contract.outcome import Iteration, Repair
from agent.contract.proposal import is_model
from agent.edits.changes import digest
from agent.gate.confidence import AGAINST
from agent.state import State, Work


async def unsure_of(state: State, work: Work) -> list[Repair]:
    """In the order in which they were proven; of equal ones, the last."""
    found = [await work.context.recall(Repair, ref) for ref in state.get("unsure_refs", [])]
    return list({digest(each.edits): each for each in found}.values())


def rung_of(repair: Repair) -> str:
    return repair.log.iterations[-1].rung


def needed(repair: Repair, work: Work) -> float:
    """The confidence that it needs to be published."""
    clear = work.context.models is None and not any(repair.signals.get(name) for name in AGAINST)
    return work.task.policy.least(rung_of(repair), clear=clear)


async def found_by_search(state: State, work: Work) -> list[Repair]:
    """Those that only a search found. A model is not shown them: one that finds the same is another witness."""
    found = [each for each in await unsure_of(state, work) if not is_model(rung_of(each))]
    if not found:
        return []
    iterations = [await work.context.recall(Iteration, ref) for ref in state.get("iterations", [])]
    by_models = {each.diff for each in iterations if is_model(each.rung)}
    return [each for each in found if each.log.iterations[-1].diff not in by_models]
