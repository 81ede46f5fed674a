"""The changes of an attempt that were proven, and not sure enough to be accepted."""

from __future__ import annotations

from agent.contract.outcome import Repair
from agent.contract.proposal import is_model
from agent.edits.changes import digest
from agent.state import State, Work


async def unsure_of(state: State, work: Work) -> list[Repair]:
    """In the order in which they were proven; of equal ones, the last."""
    found = [await work.context.recall(Repair, ref) for ref in state.get("unsure_refs", [])]
    return list({digest(each.edits): each for each in found}.values())


def rung_of(repair: Repair) -> str:
    return repair.log.iterations[-1].rung


async def open_to_models(state: State, work: Work) -> frozenset[str]:
    """The digests of those that only a search found. A model that finds one too is another witness, and repeats nothing."""
    return frozenset(digest(each.edits) for each in await unsure_of(state, work) if not is_model(rung_of(each)))
