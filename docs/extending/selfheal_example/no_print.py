"""A second opinion: objects to repairs that add a call of `print`."""

from __future__ import annotations

from agent.contract.events import Opined
from agent.contract.proposal import Candidate
from agent.state import Objection, Opinion, State, Work, pack

NAME = "no-print"


def opinion() -> Opinion:
    """The entry point in `selfheal.nodes`. Called once, when a worker starts."""
    return Opinion(NAME, _step)


async def _step(state: State, work: Work) -> State:
    """Runs for a proven candidate. An objection becomes feedback for the next round; an empty result accepts."""
    candidate = await work.context.recall(Candidate, state["winner"][0])
    adds = any((edit.after or "").count("print(") > (edit.before or "").count("print(") for edit in candidate.edits)
    reasons = ["it adds a call of `print`"] if adds else []
    text = f"`{NAME}` objects: {reasons[0]}" if reasons else ""
    await work.context.emit(Opined(text=text, step=NAME, title=candidate.title, accepted=not adds, reasons=reasons))
    return {"objection": pack(Objection(NAME, reasons[0]))} if adds else {}
