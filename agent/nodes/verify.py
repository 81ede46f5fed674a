"""Green with the change? One candidate; those of a round are asked beside each other."""

from __future__ import annotations

from agent.checks.oracle import Verification
from agent.contract.events import Verified
from agent.contract.proposal import Candidate
from agent.contract.verdicts import Oracle
from agent.contract.words import named
from agent.gate import gate
from agent.state import Candidates, State, Work, base_of, pack


async def verify(state: State, work: Work) -> Candidates:
    """Judges `state["judging"]`; one that had too little memory beside others stays allowed, to be judged alone.

    Raises `SandboxError` when the sandbox is lost; a bound it ran into alone is the candidate's.
    """
    context, ref = work.context, state["judging"]
    candidate = await context.recall(Candidate, ref)
    oracle = await context.recall(Oracle, state["oracle_ref"])
    began = context.monotonic()
    verification = await gate.is_green(work, oracle, await base_of(state, context), candidate.edits)
    if verification.starved and state.get("beside"):
        return {"alone": [ref]}
    await context.emit(
        Verified(
            text=_told(candidate, verification),
            title=candidate.title,
            passed=verification.passed,
            still_red=[str(id_) for id_ in verification.still_red[:50]],
            newly_red=[str(id_) for id_ in verification.newly_red[:50]],
            seconds=context.monotonic() - began,
        )
    )
    update: Candidates = {"judged": [[ref, pack(verification)]]}
    if verification.flaky:
        shaky = f"Failed once with a patch and passed when run again, so ignored: {named(verification.flaky)}."
        update["notes"] = [shaky]
    return update


def _told(candidate: Candidate, verification: Verification) -> str:
    if verification.passed:
        return f"Everything passes: {candidate.title}"
    return f"Failed because {verification.reason}: {candidate.title}"
