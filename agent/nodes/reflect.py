"""What a failed candidate teaches. The lesson is told from the verdicts, so it costs no call of a model.

Reflexion (Shinn et al., 2023) carries such lessons from try to try; here at most five travel on.
"""

from __future__ import annotations

import asyncio

from agent.edits import diff, digest
from agent.events import Reflected
from agent.oracle import Verification
from agent.state import State, Work, remember, unpack
from agent.task import Candidate, Iteration


async def reflect(state: State, work: Work) -> State:
    """Writes the round into the log; the same change is never judged again."""
    context = work.context
    candidate = await context.recall(Candidate, state["judged_ref"])
    verification = unpack(Verification, state["verification"])
    advice = _advice(verification)
    lesson = _lesson(candidate, verification, advice)
    lessons = remember(state, lesson)
    shown = await asyncio.to_thread(diff, candidate.edits)
    iteration = Iteration(state["iteration"], candidate.rung, candidate.title, shown, verification.reason, advice)
    await context.emit(Reflected(text=f"Learned: {advice}", lesson=lesson, lessons=lessons))
    return {
        "iterations": [await context.keep(iteration)],
        "tried": [digest(candidate.edits)],
        "lessons": lessons,
    }


def _advice(verification: Verification) -> str:
    if verification.reason.startswith("refused"):
        return "Stay within what is allowed."
    if verification.newly_red:
        return "Keep the idea only if what it breaks can stay as it was."
    if verification.still_red:
        return "The cause lies elsewhere, or the change does not go far enough."
    return "Propose something that can be verified."


def _lesson(candidate: Candidate, verification: Verification, advice: str) -> str:
    """For the next proposal, which knows nothing of this one."""
    where = ", ".join(edit.path for edit in candidate.edits)
    return f"{candidate.title[:160]} ({where}): {verification.reason[:500]}. {advice}"
