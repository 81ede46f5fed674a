"""The reflection log as Markdown for GitHub: what was believed, tried and learned. Pure; everything in it is outside text."""

from __future__ import annotations

from collections.abc import Sequence

from agent.task import Iteration, ReflectionLog, RungCost, Usage
from app.markdown import Quoter

_SHRINK = (2000, 600, 0)
"""Characters of each iteration's diff, tried in turn until the log fits."""

_MOST = 60
"""Iterations that are shown at most: no more would fit."""


def log_markdown(log: ReflectionLog, quote: Quoter, limit: int) -> str:
    """At most `limit` bytes (UTF-8). What does not fit goes in this order: diffs, then the oldest iterations, then the rest."""
    for diff in _SHRINK:
        text = _whole(log, log.iterations[-_MOST:], quote, diff)
        if _size(text) <= limit:
            return text
    for kept in (20, 8, 3, 1, 0):
        text = _whole(log, log.iterations[-kept:] if kept else (), quote, 0)
        if _size(text) <= limit:
            return text
    return ""


def spent(usage: Usage) -> str:
    """The cost in words: "3 model calls, 1,200 tokens, $0.0042"."""
    if usage.calls == 0:
        return "no model was asked: $0"
    tokens = usage.tokens_in + usage.tokens_out
    calls = "1 model call" if usage.calls == 1 else f"{usage.calls} model calls"
    price = "price not known" if usage.cost is None else f"${usage.cost:.4f}"
    return f"{calls}, {tokens:,} tokens ({usage.tokens_in:,} in, {usage.tokens_out:,} out), {price}"


def _whole(log: ReflectionLog, iterations: Sequence[Iteration], quote: Quoter, diff: int) -> str:
    parts: list[str] = []
    if log.diagnosis is not None:
        parts.append(f"**Diagnosis** ({quote.prose(log.diagnosis.by, 80)}): {quote.prose(log.diagnosis.cause, 600)}")
    if left_out := len(log.iterations) - len(iterations):
        parts.append(f"The first {left_out} of {len(log.iterations)} iterations are left out here for their length.")
    parts += [_iteration(iteration, quote, diff) for iteration in iterations]
    parts += _list("Lessons", [quote.prose(lesson, 400) for lesson in log.lessons[:5]])
    if log.rungs:
        rows = [_rung(rung, quote) for rung in log.rungs[:20]]
        parts.append("\n".join(["| rung | tried | passed | seconds | spent | note |", "|---|--:|--:|--:|---|---|", *rows]))
    parts += _list("Notes", [quote.prose(note, 400) for note in log.notes[:20]])
    return "\n\n".join(parts) if parts else "Nothing was tried."


def _iteration(iteration: Iteration, quote: Quoter, diff: int) -> str:
    parts = [
        f"**Iteration {iteration.number}** ({quote.prose(iteration.rung, 80)}): {quote.prose(iteration.title, 200)}",
        f"Result: {quote.prose(iteration.result, 300)}",
    ]
    if iteration.diff and diff:
        parts.append(quote.fence(iteration.diff, diff, "diff"))
    if iteration.lesson:
        parts.append(f"Lesson: {quote.prose(iteration.lesson, 400)}")
    return "\n\n".join(parts)


def _rung(rung: RungCost, quote: Quoter) -> str:
    note = quote.cell(rung.note, 120) if rung.note else ""
    return f"| {quote.cell(rung.rung, 60)} | {rung.tried} | {rung.passed} | {rung.seconds:.1f} | {spent(rung.usage)} | {note} |"


def _list(title: str, items: Sequence[str]) -> list[str]:
    return ["\n".join([f"**{title}**", "", *(f"- {item}" for item in items)])] if items else []


def _size(text: str) -> int:
    return len(text.encode())
