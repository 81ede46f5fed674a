"""Runs the checks on one candidate."""

from __future__ import annotations

from agent.contract.events import Verified
from agent.contract.proposal import Candidate
from agent.contract.verdicts import Oracle
from agent.contract.words import named
from agent.gate import gate
from agent.state import Candidates, State, Work, base_runs, pack

SHOWN = 50  # ids in one event of the timeline


async def verify(state: State, work: Work) -> Candidates:
    """Judges `state["judging"]`. If it ran out of memory next to others, it stays allowed, to be judged alone later.

    Raises `SandboxError` when the sandbox is lost. A limit that the candidate reached alone makes it fail.
    """
    context, ref = work.context, state["judging"]
    candidate = await context.recall(Candidate, ref)
    oracle = await context.recall(Oracle, state["oracle_ref"])
    began = context.monotonic()
    verification = await gate.is_green(work, oracle, await base_runs(state, context), candidate.edits)
    if verification.starved and state.get("beside"):
        return {"alone": [ref]}
    how = "Everything passes" if verification.passed else f"Failed because {verification.reason}"
    await context.emit(
        Verified(
            text=f"{how}: {candidate.title}",
            title=candidate.title,
            passed=verification.passed,
            still_red=[str(id_) for id_ in verification.still_red[:SHOWN]],
            newly_red=[str(id_) for id_ in verification.newly_red[:SHOWN]],
            seconds=context.monotonic() - began,
        )
    )
    update: Candidates = {"judged": [[ref, pack(verification)]]}
    if verification.flaky:
        shaky = f"Failed once with a patch but passed when run again, so ignored: {named(verification.flaky)}."
        update["notes"] = [shaky]
    if verification.unsteady:
        unsteady = named(verification.unsteady)
        update["notes"] = [f"Failed with a patch, and in one of two runs without it, so ignored: {unsteady}."]
    return update
