"""A person is asked, where the policy's autonomy says so; the repair sleeps in its checkpoints until they reply.

LangGraph runs a step again from its top when it resumes: nothing happens before `interrupt`.
"""

from __future__ import annotations

import asyncio

from langgraph.types import interrupt

from agent.checks.oracle import Verification
from agent.contract.events import Answered
from agent.contract.proposal import Candidate
from agent.edits.changes import diff
from agent.question import Autonomy, Question, Reply
from agent.report.endings import rejected
from agent.state import State, Work, pack, unpack

_ROUNDS: tuple[Autonomy, ...] = ("review_repairs", "review_all")


def asks_before(state: State, autonomy: Autonomy) -> bool:
    """Is a person asked before the round that is about to begin?"""
    first = state["iteration"] <= 1
    return autonomy in _ROUNDS and not (first and autonomy == "review_repairs") and state.get("asked", 0) < state["iteration"]


async def approve_round(state: State, work: Work) -> State:
    """A rejection ends the attempt; what the person says besides travels on."""
    rung = work.ladder[state["rung"]].rung
    tried = len(state.get("iterations", []))
    question = Question("round", f"{tried} changes were tried so far. May `{rung}` propose the next one?")
    reply = unpack(Reply, interrupt(pack(question)))
    await _told(work, question, reply)
    if not reply.approved:
        return {"ending": pack(rejected(reply.why))}
    return {"asked": state["iteration"], "guidance": [*state.get("guidance", []), *([reply.why] if reply.why else [])]}


async def approve(state: State, work: Work) -> State:
    """A rejection with a reason is a failure to learn from; one without ends the attempt."""
    if work.task.policy.autonomy == "full":
        return {}
    ref, packed = state["winner"]
    candidate = await work.context.recall(Candidate, ref)
    shown = await asyncio.to_thread(diff, candidate.edits)
    question = Question("publish", f"Proven red, green, red. May it be published? {candidate.title}", shown)
    reply = unpack(Reply, interrupt(pack(question)))
    await _told(work, question, reply)
    if reply.approved:
        return {}
    if not reply.why:
        return {"winner": None, "ending": pack(rejected(""))}
    why = f"a person rejected it: {reply.why}"
    failed = Verification(False, why, evidence=unpack(Verification, packed).evidence, judge="person")
    return {"winner": None, "failed": [[ref, pack(failed)]], "guidance": [*state.get("guidance", []), reply.why]}


async def _told(work: Work, question: Question, reply: Reply) -> None:
    """The answer. The question was told by whoever put the repair to sleep: up to `interrupt`, this step runs twice."""
    await work.context.emit(Answered(text=reply.told, about=question.about, approved=reply.approved, why=reply.why))
