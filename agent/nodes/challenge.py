"""The second oracle on the proven candidate: do its functions keep their promises, and how do they behave beside the tests?

It may object; what is no more than strange becomes a doubt, which lowers the confidence.
"""

from __future__ import annotations

import asyncio

from agent.challenge.judgement import Challenged, judge
from agent.challenge.play import play
from agent.challenge.touched import touched
from agent.events import Opined
from agent.state import Objection, State, Work, fell_back, pack
from agent.task import Candidate, CheckRun, Edits, Oracle

RIVALS = 5  # other candidates of the round whose behaviour is compared


async def challenge(state: State, work: Work) -> State:
    """Raises `SandboxError` when the sandbox is lost; where nothing can be played with, the winner is accepted."""
    context = work.context
    candidate = await context.recall(Candidate, state["winner"][0])
    found, fallen = await _played(state, work, candidate)
    reasons = [found.objection] if found.objection else list(found.doubts)
    text = f"Challenged, and not accepted, because {found.objection}: {candidate.title}" if found.objection else ""
    await context.emit(
        Opined(text=text, step="challenge", title=candidate.title, accepted=not found.objection, reasons=reasons)
    )
    update: State = {"challenged": pack(found), **fallen}
    return {**update, "objection": pack(Objection("challenge", found.objection))} if found.objection else update


async def _played(state: State, work: Work, candidate: Candidate) -> tuple[Challenged, State]:
    context = work.context
    changes = [candidate.edits, *await _rivals(state, work, candidate)]
    functions = await asyncio.to_thread(touched, changes)
    if not functions.functions:
        return Challenged(), {}
    oracle = await context.recall(Oracle, state["oracle_ref"])
    base = await context.recall(tuple[CheckRun, ...], state["base_ref"])
    played = await play(work.task.sandbox, work.runner, oracle, base, functions, changes)
    if played is None:
        return Challenged(), {}
    if played.unavailable:
        return Challenged(), await fell_back(work, "challenge", f"The change could not be challenged: {played.unavailable}.")
    return judge(played), {}


async def _rivals(state: State, work: Work, candidate: Candidate) -> list[Edits]:
    """The other candidates of the round that are plausible as far as is known."""
    refs = [*(verdict[0] for verdict in state.get("passed", [])), *state.get("allowed", [])]
    rivals = [await work.context.recall(Candidate, ref) for ref in refs[:RIVALS]]
    return [rival.edits for rival in rivals if rival.edits != candidate.edits]
