"""Proves the selected candidate: it passes every time, and reverting it fails again."""

from __future__ import annotations

from dataclasses import replace

from agent.checks.oracle import Verification
from agent.contract.events import Proven
from agent.contract.proposal import Candidate
from agent.contract.verdicts import Oracle
from agent.gate import gate
from agent.state import Contest, State, Work, base_of, pack, unpack

SHOWN = 50  # ids of a check's target in the timeline


async def prove(state: State, work: Work) -> Contest:
    """Raises `SandboxError` when the sandbox is lost."""
    context = work.context
    ref, green = state["winner"]
    candidate = await context.recall(Candidate, ref)
    oracle = await context.recall(Oracle, state["oracle_ref"])
    began = context.monotonic()
    base = await base_of(state, context)
    verification = await gate.prove(work, oracle, base, candidate.edits, unpack(Verification, green))
    seconds = context.monotonic() - began
    if verification.passed:
        text = f"Proven red, green, red: {candidate.title}"
    else:
        text = f"Not proven because {verification.reason}: {candidate.title}"
    await context.emit(
        Proven(
            text=text,
            title=candidate.title,
            passed=verification.passed,
            why=verification.reason,
            seconds=seconds,
            evidence=[replace(check, target=check.target[:SHOWN]) for check in verification.evidence],
        )
    )
    # By the time a person approves, the sandbox can be another one.
    proof: Contest = {"winner": [ref, pack(verification)], "proven_in": [work.task.environment, list(work.task.approximated)]}
    return proof if verification.passed else {"winner": None, "failed": [[ref, pack(verification)]]}
