"""Asks a person when the autonomy setting requires it. The repair waits in its checkpoint for the reply.

LangGraph runs the whole step again when it resumes, so nothing with an effect precedes `interrupt`.
"""

from __future__ import annotations

import asyncio

from langgraph.types import interrupt

from agent.checks.oracle import Verification
from agent.contract import words
from agent.contract.events import Answered
from agent.contract.proposal import Candidate
from agent.contract.question import Autonomy, Question, Reply
from agent.edits.changes import diff
from agent.report.endings import rejected
from agent.state import Approval, End, State, Work, pack, unpack

_ROUNDS: tuple[Autonomy, ...] = ("review_repairs", "review_all")


def asks_before(state: State, autonomy: Autonomy) -> bool:
    """Must a person approve the round that is about to start?"""
    first = state["iteration"] <= 1
    return autonomy in _ROUNDS and not (first and autonomy == "review_repairs") and state.get("asked", 0) < state["iteration"]


async def approve_round(state: State, work: Work) -> End:
    """A rejection ends the attempt. A text sent with an approval becomes guidance."""
    rung = work.ladder[state["rung"]].rung
    tried = len(state.get("iterations", []))
    question = Question("round", f"{words.counted(tried, 'change')} tried so far. May {words.rung(rung)} propose a patch?")
    reply = await _ask(work, question)
    if not reply.approved:
        return {"ending": pack(rejected("another round", reply.why))}
    return {"asked": state["iteration"], "guidance": [*state.get("guidance", []), *([reply.why] if reply.why else [])]}


async def approve(state: State, work: Work) -> Approval:
    """A rejection with a reason becomes a lesson; without a reason it ends the attempt."""
    if work.task.policy.autonomy == "full" or not work.task.policy.publishes:
        return {}
    ref, packed = state["winner"]
    candidate = await work.context.recall(Candidate, ref)
    shown = await asyncio.to_thread(diff, candidate.edits)
    question = Question("publish", f"It found a verified repair. May it open a pull request? {candidate.title}", shown)
    reply = await _ask(work, question)
    if reply.approved:
        return {}
    if not reply.why:
        return {"winner": None, "ending": pack(rejected("the change", ""))}
    why = f"a person rejected it: {reply.why}"
    failed = Verification(False, why, evidence=unpack(Verification, packed).evidence, judge="person")
    return {"winner": None, "failed": [[ref, pack(failed)]], "guidance": [*state.get("guidance", []), reply.why]}


async def _ask(work: Work, question: Question) -> Reply:
    """Emit the reply. The caller of the graph emits the question, because this step runs twice up to `interrupt`."""
    reply = unpack(Reply, interrupt(pack(question)))
    await work.context.emit(Answered(text=reply.summary, about=question.about, approved=reply.approved, why=reply.why))
    return reply
