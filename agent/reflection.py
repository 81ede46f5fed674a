"""The reflection log: made from the graph's state, and as Markdown for people.

Texts in it come from hostile code and from models: everything quoted stands in fences that it cannot close, and nothing is
rendered as a heading, a link or a mention.
"""

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


def inline(text: str) -> str:
    """One line of foreign text as code: no mention, link or markup works in it."""
    flat = " ".join(text.split()).replace("`", "'")
    return f"`{flat}`" if flat else "—"


def to_markdown(log: ReflectionLog) -> str:
    """The log for a pull request, a page or a terminal."""
    parts = []
    if log.diagnosis is not None:
        told = log.diagnosis
        parts.append(f"**Diagnosis** ({inline(told.category)}, confidence {told.confidence:.0%}, by {inline(told.by)})")
        parts.append(fenced(told.cause, "text"))
    for number, judged in enumerate(log.iterations, 1):
        parts.append(f"**{number}. {inline(judged.title)}** — round {judged.number}, rung {inline(judged.rung)}")
        parts.append(fenced(judged.diff, "diff"))
        parts.append(f"Result: {inline(judged.result)}")
        if judged.lesson:
            parts.append(f"Lesson: {inline(judged.lesson)}")
    if log.rungs:
        rows = [
            f"| {_cell(r.rung)} | {r.seconds:.1f} | {r.tried} | {r.passed} | {r.usage.tokens_in + r.usage.tokens_out} "
            f"| {'unknown' if r.usage.cost is None else f'${r.usage.cost:.4f}'} | {_cell(r.note) if r.note else ''} |"
            for r in log.rungs
        ]
        head = "| rung | seconds | tried | plausible | tokens | cost | note |\n|---|---|---|---|---|---|---|"
        parts.append("\n".join([head, *rows]))
    if log.lessons:
        parts.append("**Lessons**")
        parts.append("\n".join(f"- {inline(lesson)}" for lesson in log.lessons))
    if log.notes:
        parts.append("**Notes**")
        parts.append("\n".join(f"- {inline(note)}" for note in log.notes))
    return "\n\n".join(parts) + "\n" if parts else "Nothing was tried.\n"


def _cell(text: str) -> str:
    return inline(text.replace("|", "/"))
