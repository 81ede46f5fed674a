"""Builds the reflection log from the graph's state."""

from __future__ import annotations

import asyncio
import re

from agent.checks.oracle import Verification
from agent.contract.budget import RungCost
from agent.contract.outcome import Iteration, ReflectionLog
from agent.contract.proposal import Candidate, Diagnosis
from agent.edits.changes import diff
from agent.state import Context, State, unpack


async def log_of(state: State, context: Context, last: Iteration | None, diagnosis: Diagnosis | None) -> ReflectionLog:
    """The history so far. `last` is the winner's iteration, if any; candidates that failed in that round come before it."""
    rounds = [await context.recall(Iteration, ref) for ref in state.get("iterations", [])]
    for ref, packed in state.get("failed", []):
        candidate, verification = await context.recall(Candidate, ref), unpack(Verification, packed)
        rounds.append(await iteration_of(candidate, verification, state["iteration"]))
    return ReflectionLog(
        diagnosis=diagnosis,
        iterations=(*rounds, last) if last else tuple(rounds),
        lessons=tuple(state.get("lessons", [])),
        rungs=tuple(unpack(RungCost, rung) for rung in state.get("rungs", [])),
        notes=tuple(state.get("notes", [])),
    )


async def iteration_of(candidate: Candidate, verification: Verification, number: int, lesson: str = "") -> Iteration:
    """The result of one candidate."""
    shown = await asyncio.to_thread(diff, candidate.edits)
    return Iteration(number, candidate.rung, candidate.title, shown, verification.reason, lesson)


def fenced(text: str, language: str = "") -> str:
    """A fenced code block whose fence is longer than any in the text."""
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"
