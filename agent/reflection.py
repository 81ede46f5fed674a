"""The reflection log, made from the graph's state; how it is shown is for others to say."""

from __future__ import annotations

import re

from agent.state import Context, State, unpack
from agent.task import Diagnosis, Iteration, ReflectionLog, RungCost


async def log_of(state: State, context: Context, last: Iteration | None, diagnosis: Diagnosis | None) -> ReflectionLog:
    """The history so far. `last` is the round that ended it, where one did."""
    rounds = [await context.recall(Iteration, ref) for ref in state.get("iterations", [])]
    return ReflectionLog(
        diagnosis=diagnosis,
        iterations=(*rounds, last) if last else tuple(rounds),
        lessons=tuple(state.get("lessons", [])),
        rungs=tuple(unpack(RungCost, rung) for rung in state.get("rungs", [])),
        notes=tuple(state.get("notes", [])),
    )


def fenced(text: str, language: str = "") -> str:
    """A code block that its content cannot leave."""
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"
