"""Proves the winner: its tests fail without it, pass with it, and fail again without it."""

from __future__ import annotations

from dataclasses import replace

from agent.checks.oracle import Verification
from agent.contract.events import Proven
from agent.contract.proposal import Candidate
from agent.contract.verdicts import Oracle
from agent.gate import gate
from agent.state import Contest, State, Work, base_runs, pack, unpack

SHOWN = 50  # ids in one event of the timeline


async def prove(state: State, work: Work) -> Contest:
    """Raises `SandboxError` when the sandbox is lost."""
    context = work.context
    ref, green = state["winner"]
    candidate = await context.recall(Candidate, ref)
    oracle = await context.recall(Oracle, state["oracle_ref"])
    began = context.monotonic()
    base = await base_runs(state, context)
    verification = await gate.prove(work, oracle, base, candidate.edits, unpack(Verification, green))
    seconds = context.monotonic() - began
    how = "Verified against the original code" if verification.passed else f"Not verified because {verification.reason}"
    await context.emit(
        Proven(
            text=f"{how}: {candidate.title}",
            title=candidate.title,
            passed=verification.passed,
            why=verification.reason,
            seconds=seconds,
            evidence=[replace(check, target=check.target[:SHOWN]) for check in verification.evidence],
        )
    )
    # By the time a person approves, the attempt can be in another sandbox.
    proof: Contest = {"winner": [ref, pack(verification)], "proven_in": [work.task.environment, list(work.task.approximated)]}
    return proof if verification.passed else {"winner": None, "failed": [[ref, pack(verification)]]}
