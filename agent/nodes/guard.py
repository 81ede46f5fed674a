"""May this change be made at all? The rules of `agent/guard.py`, before anything runs."""

from __future__ import annotations

import asyncio

from agent import guard as rules
from agent.events import Guarded
from agent.oracle import Verification, failures
from agent.state import State, Work, pack
from agent.task import Candidate, CheckRun, Oracle


async def guard(state: State, work: Work) -> State:
    """Takes the next candidate: allowed ones go to `verify`, refused ones to `reflect`."""
    context = work.context
    ref, *rest = state["pending"]
    candidate = await context.recall(Candidate, ref)
    oracle = await context.recall(Oracle, state["oracle_ref"])
    base = await context.recall(tuple[CheckRun, ...], state["base_ref"])
    red = failures(base, (id_ for ids in oracle.must_turn.values() for id_ in ids))
    failing = "\n".join(f"{f.message}\n{f.details}" for f in red)
    refusal = await asyncio.to_thread(rules.refusal, candidate, work.task.policy, oracle, failing)
    taken: State = {"pending": rest, "judged_ref": ref, "verification": None}
    if refusal is None:
        return taken
    await context.emit(
        Guarded(text=f"Refused, because {refusal.sentence}: {candidate.title}", title=candidate.title, rule=refusal.rule)
    )
    before = state.get("refused", [])
    insists = refusal.rule == rules.TESTS and before[-1:] == [rules.TESTS]
    return {
        **taken,
        "verification": pack(Verification(False, f"refused: {refusal.sentence}")),
        "refused": [refusal.rule],
        "rung": state["rung"] + 1 if insists and not rest else state["rung"],
    }
