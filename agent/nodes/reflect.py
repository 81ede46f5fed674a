"""Turns failed candidates into lessons, from their verdicts and without a model.

Reflexion (Shinn et al., 2023) carries such lessons from try to try; here at most five are kept.
"""

from __future__ import annotations

import asyncio
import re

from langgraph.types import Overwrite

from agent.checks.oracle import Verification
from agent.contract import words
from agent.contract.events import Reflected
from agent.contract.outcome import ALL_BUT_EXIT, WEIGHED, Iteration
from agent.contract.proposal import Candidate, Diagnosis, FileChange
from agent.contract.verdicts import Oracle
from agent.diagnosis.evidence import causes_left, is_similar
from agent.edits.changes import digest
from agent.report.reflection import iteration_of
from agent.reproduce.flakiness import mentions_network
from agent.source.outline import Module, changed
from agent.state import Context, Objection, Reflection, State, Work, pack, remember, unpack

NAMED = 4  # most locations that a lesson names


async def reflect(state: State, work: Work) -> Reflection:
    """Add failed candidates to the log. The same patch is never judged again."""
    context = work.context
    failed = [*state["failed"], *_objected(state)]
    lessons, refs, tried = state.get("lessons", []), [], []
    earlier = state.get("iterations", [])
    stuck, before = state.get("stuck", 0), (await context.recall(Iteration, earlier[-1])).result if earlier else ""
    partial = state.get("partial", [])
    doubted, refuted = list(state.get("doubted", [])), list(state.get("refuted", []))
    oracle = await context.recall(Oracle, state["oracle_ref"])
    wanted = sum(map(len, oracle.must_turn.values()))
    for ref, packed in failed:
        candidate, verification = await context.recall(Candidate, ref), unpack(Verification, packed)
        advice = _advice(verification, wanted)
        lesson = await asyncio.to_thread(_lesson, candidate, verification, advice)
        lessons = remember(lessons, lesson)
        iteration = await iteration_of(candidate, verification, state["iteration"], advice)
        await context.emit(
            Reflected(
                text=f"Learned: {advice if advice and verification.judge != 'opinion' else verification.reason}",
                lesson=lesson,
                lessons=lessons,
                title=candidate.title,
                result=verification.reason,
                advice=advice,
            )
        )
        refs.append(await context.keep(iteration))
        is_partial = bool(verification.still_red) and not verification.newly_red
        is_partial = is_partial or verification.reason.startswith(ALL_BUT_EXIT)
        fixed = wanted - len(verification.still_red) if is_partial else 0
        if fixed > (partial or [0])[0]:
            partial = [fixed, refs[-1], digest(candidate.edits)]
        tried.append(digest(candidate.edits))
        is_same = verification.reason == before and verification.judge != "opinion"  # the checks passed: the place may be right
        stuck, before = (stuck + 1 if is_same else 0), verification.reason
        if candidate.hypothesis and verification.still_red:
            again = any(is_similar(candidate.hypothesis, each) for each in doubted)
            (refuted if again or verification.unmoved else doubted).append(candidate.hypothesis)
    if stuck and failed and (last := unpack(Verification, failed[-1][1])).still_red:
        lesson = await _same_again([*earlier, *refs][-stuck - 1 :], last.unmoved, context)
        lessons = remember(lessons, lesson)
        await context.emit(Reflected(text=f"Stuck: {lesson}", lesson=lesson, lessons=lessons))
    known = unpack(Diagnosis, state["diagnosis"]) if state.get("diagnosis") else None
    ground = [ref for ref, packed in failed if await _is_groundwork(ref, unpack(Verification, packed), state, context)]
    update: State = {"groundwork": ground[0]} if ground and not state.get("groundwork") else {}
    return {
        **update,
        "failed": Overwrite([]),  # type: ignore[typeddict-item]
        "winner": None,
        "objection": None,
        "iterations": refs,
        "partial": partial,
        "tried": tried,
        "lessons": lessons,
        "stuck": stuck,
        "doubted": doubted[len(state.get("doubted", [])) :],
        "refuted": refuted[len(state.get("refuted", [])) :],
        "diagnosis": state.get("diagnosis") if known and causes_left(known, refuted) else None,
    }


def _objected(state: State) -> list[list[object]]:
    """The winner that a second opinion rejected, as a failed candidate with the reason."""
    if not state.get("objection") or not state.get("winner"):
        return []
    objection = unpack(Objection, state["objection"])
    return [[state["winner"][0], pack(Verification(False, f"{objection.by} objects: {objection.reason}", judge="opinion"))]]


async def _is_groundwork(ref: str, verification: Verification, state: State, context: Context) -> bool:
    """Whether it is a patch by `tools` that fixed part of the target and broke nothing, such as a formatting fix."""
    if verification.newly_red or not verification.still_red or (await context.recall(Candidate, ref)).rung != "tools":
        return False
    oracle = await context.recall(Oracle, state["oracle_ref"])
    return len(verification.still_red) < sum(map(len, oracle.must_turn.values()))


def _advice(verification: Verification, wanted: int) -> str:
    """`wanted` counts the results that have to turn green."""
    if verification.judge == "guard":
        return verification.instead
    if verification.judge == "opinion" and verification.reason.startswith(WEIGHED):
        return "It passes every check. If it is right for every input, give it again; otherwise give one that leaves no doubt."
    if verification.judge in ("opinion", "person"):
        return "The next change must pass the same checks without this fault."
    if words.HUNG in verification.reason:
        return "Something does not end, or takes far too long: bound the loop or recursion, or make it cheaper."
    if "RecursionError" in verification.reason:
        return "It calls itself without end: stop at the smallest case, or do without recursion."
    if "MemoryError" in verification.reason or verification.starved:
        return "It needs more memory than there is: bound what it builds, or work piece by piece."
    if mentions_network(verification.reason) or "Connection refused" in verification.reason:
        return "There is no network here: nothing answers but what the tests start themselves."
    if verification.reason.startswith(ALL_BUT_EXIT):
        return "The rest of the command fails, as its last line says: repair that too, if it is the code's fault."
    if verification.newly_red:
        return "The tests that broke ask for the former behaviour: find the rule that gives both."
    if 0 < (left := len(verification.still_red)) < wanted:
        return (
            f"{wanted - left} of {words.counted(wanted, 'failing result')} now pass. Keep this part, and repair what is left."
        )
    if verification.still_red:
        return "The cause lies elsewhere, or the change does not go far enough."
    return ""


def _lesson(candidate: Candidate, verification: Verification, advice: str) -> str:
    """A lesson for the next proposal. It names locations, so that their code can be shown again."""
    title = candidate.title[:160]
    where = ", ".join([place for edit in candidate.edits if f"{edit.path}:" not in title for place in _places(edit)][:NAMED])
    return f"{title}{f' ({where})' if where else ''}: {verification.reason[:500].rstrip('.')}. {advice}".rstrip()


def _places(edit: FileChange) -> list[str]:
    """The functions that an edit changes, as "path::Class.method"; otherwise its path."""
    functions = changed(Module(edit.path, edit.before or ""), Module(edit.path, edit.after or ""))
    return [f"{edit.path}::{function.name}" for function in functions] or [edit.path]


async def _same_again(refs: list[str], unmoved: bool, context: Context) -> str:
    """A lesson from patches that failed in the same way. It does not rule out their location, which can still be right."""
    rounds = [await context.recall(Iteration, ref) for ref in refs]
    paths = [path for each in rounds for path in re.findall(r"^\+\+\+ b/(.+)$", each.diff, re.MULTILINE)]
    where = ", ".join(list(dict.fromkeys(paths))[:NAMED])
    end = "did not change the failure" if unmoved else "failed in the same way"
    return f"The last {len(rounds)} changes{f' (in {where})' if where else ''} {end}."
