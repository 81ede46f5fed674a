"""What failed candidates teach. The lesson is told from the verdicts, so it costs no call of a model.

Reflexion (Shinn et al., 2023) carries such lessons from try to try; here at most five travel on.
"""

from __future__ import annotations

from langgraph.types import Overwrite

from agent.alike import alike
from agent.edits import digest
from agent.events import Reflected
from agent.oracle import Verification
from agent.reflection import told
from agent.refuting import causes_left, left_as_it_was
from agent.state import Objection, State, Work, pack, red_of, remember, unpack
from agent.task import Candidate, Diagnosis, Iteration

STUCK = "The last changes failed in the very same way: the place is another one."


async def reflect(state: State, work: Work) -> State:
    """Writes what failed into the log; the same change is never judged again."""
    context = work.context
    failed = [*state["failed"], *_objected(state)]
    lessons, refs, tried = state.get("lessons", []), [], []
    stuck, before = state.get("stuck", 0), await _last_result(state, work)
    doubted, refuted = list(state.get("doubted", [])), list(state.get("refuted", []))
    base = await red_of(state, context)
    for ref, packed in failed:
        candidate, verification = await context.recall(Candidate, ref), unpack(Verification, packed)
        advice = _advice(verification)
        lesson = _lesson(candidate, verification, advice)
        lessons = remember(lessons, lesson)
        iteration = await told(candidate, verification, state["iteration"], advice)
        await context.emit(Reflected(text=f"Learned: {advice}", lesson=lesson, lessons=lessons))
        refs.append(await context.keep(iteration))
        tried.append(digest(candidate.edits))
        stuck, before = (stuck + 1 if verification.reason == before else 0), verification.reason
        if candidate.hypothesis and verification.still_red:
            again = any(alike(candidate.hypothesis, each) for each in doubted)
            (refuted if again or left_as_it_was(verification, base) else doubted).append(candidate.hypothesis)
    if stuck:
        lessons = remember(lessons, STUCK)
        await context.emit(Reflected(text=f"Stuck: {STUCK}", lesson=STUCK, lessons=lessons))
    known = unpack(Diagnosis, state["diagnosis"]) if state.get("diagnosis") else None
    return {
        "failed": Overwrite([]),  # type: ignore[typeddict-item]
        "winner": None,
        "objection": None,
        "iterations": refs,
        "tried": tried,
        "lessons": lessons,
        "stuck": stuck,
        "doubted": doubted[len(state.get("doubted", [])) :],
        "refuted": refuted[len(state.get("refuted", [])) :],
        "diagnosis": state.get("diagnosis") if known and causes_left(known, refuted) else None,
    }


async def _last_result(state: State, work: Work) -> str:
    """How the change before failed."""
    refs = state.get("iterations", [])
    return (await work.context.recall(Iteration, refs[-1])).result if refs else ""


def _objected(state: State) -> list[list[object]]:
    """The winner that a second opinion does not accept, as a failure with its reason."""
    if not state.get("objection") or not state.get("winner"):
        return []
    objection = unpack(Objection, state["objection"])
    return [[state["winner"][0], pack(Verification(False, f"{objection.by} objects: {objection.reason}"))]]


def _advice(verification: Verification) -> str:
    if verification.reason.startswith("refused"):
        return "Stay within what is allowed."
    if verification.newly_red:
        return "Keep the idea only if what it breaks can stay as it was."
    if verification.still_red:
        return "The cause lies elsewhere, or the change does not go far enough."
    if "objects:" in verification.reason or "a person rejected" in verification.reason:
        return "Meet the objection; that the checks are green is not enough."
    return "Propose something that can be verified."


def _lesson(candidate: Candidate, verification: Verification, advice: str) -> str:
    """For the next proposal, which knows nothing of this one."""
    where = ", ".join(edit.path for edit in candidate.edits)
    return f"{candidate.title[:160]} ({where}): {verification.reason[:500]}. {advice}"
