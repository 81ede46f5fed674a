"""The reflection log as Markdown for GitHub: what was believed, tried and learned. Pure; everything in it is outside text."""

from __future__ import annotations

from collections.abc import Sequence

from agent import words
from agent.contract.outcome import Iteration, ReflectionLog
from agent.contract.usage import RungCost, Usage
from app.publish.markdown import Quoter

_SHRINK = (2000, 600, 0)
"""Characters of each iteration's diff, tried in turn until the log fits."""

_MOST = 60
"""Iterations that are shown at most: no more would fit."""

_TRIED = 8  # failed changes in the summary


def log_markdown(log: ReflectionLog, quote: Quoter, limit: int) -> str | None:
    """At most `limit` bytes (UTF-8); None when the log is empty, "" when nothing of it fits.

    What does not fit goes in this order: diffs, then the oldest iterations, then the rest.
    """
    if log.diagnosis is None and not (log.iterations or log.lessons or log.rungs or log.notes):
        return None
    for diff in _SHRINK:
        text = _whole(log, log.iterations[-_MOST:], quote, diff)
        if _size(text) <= limit:
            return text
    for kept in (20, 8, 3, 1, 0):
        text = _whole(log, log.iterations[-kept:] if kept else (), quote, 0)
        if _size(text) <= limit:
            return text
    return ""


def tried_markdown(log: ReflectionLog, quote: Quoter) -> str:
    """The changes that came as far as a judgement and failed, newest first, one line each; "" when there were none."""
    failed = [iteration for iteration in reversed(log.iterations) if iteration.result != "verified"]
    lines = [f"- {quote.prose(i.title, 160)}: {quote.prose(i.result, 300)}" for i in failed[:_TRIED]]
    if len(failed) > _TRIED:
        lines.append(f"- … and {len(failed) - _TRIED} before these.")
    return "\n".join(lines)


def spent(usage: Usage) -> str:
    """The cost in words: "3 model calls, 1,200 tokens, $0.0042"."""
    if usage.calls == 0:
        return "no model was asked, $0"
    tokens = usage.tokens_in + usage.tokens_out
    counts = f"{tokens:,} tokens ({usage.tokens_in:,} in, {usage.tokens_out:,} out)"
    return f"{words.counted(usage.calls, 'model call')}, {counts}, {_price(usage)}"


def _price(usage: Usage) -> str:
    if usage.cost is None:
        return "price not known"
    price = f"${usage.cost:.4f}" if 0 < usage.cost < 0.1 else f"${usage.cost:.2f}"
    if usage.unpriced:
        return f"at least {price} (the price of {words.counted(usage.unpriced, 'call')} is not known)"
    return price


def _whole(log: ReflectionLog, iterations: Sequence[Iteration], quote: Quoter, diff: int) -> str:
    parts: list[str] = []
    if log.diagnosis is not None:
        parts.append(f"**Diagnosis:** {quote.prose(log.diagnosis.cause, 600)}")
    parts += _list("Who was asked", [_rung(rung, quote) for rung in log.rungs[:20]])
    if left_out := len(log.iterations) - len(iterations):
        parts.append(f"The first {left_out} of {len(log.iterations)} tries are left out here for their length.")
    parts += [_iteration(iteration, quote, diff) for iteration in iterations]
    # What a judged change taught begins with its title, and stands there.
    told = tuple(iteration.title[:160] for iteration in log.iterations if iteration.title)
    parts += _list("Lessons", [quote.prose(lesson, 400) for lesson in log.lessons[:5] if not lesson.startswith(told)])
    parts += _list("Notes", [quote.prose(note, 600) for note in log.notes[:20]])
    return "\n\n".join(parts)


def _iteration(iteration: Iteration, quote: Quoter, diff: int) -> str:
    lines = [
        f"**Try {iteration.number}**, by {quote.prose(words.rung(iteration.rung), 120)}: {quote.prose(iteration.title, 200)}",
        f"- Result: {quote.prose(iteration.result, 300)}",
    ]
    if iteration.lesson:
        lines.append(f"- Learned: {quote.prose(iteration.lesson, 400)}")
    text = "\n".join([lines[0], "", *lines[1:]])
    return f"{text}\n\n{quote.fence(iteration.diff, diff, 'diff')}" if iteration.diff and diff else text


def _rung(rung: RungCost, quote: Quoter) -> str:
    """ "The search through small changes tried 56 changes in 1.4 s; 1 of them makes the failing tests pass (60 a second)"."""
    who = words.rung(rung.rung)
    note = f" ({rung.note})" if rung.note else ""
    cost = f"; {spent(rung.usage)}" if rung.usage.calls else ""
    return quote.prose(f"{who[:1].upper()}{who[1:]} {words.effort(rung)}{note}{cost}", 400) + "."


def _list(title: str, items: Sequence[str]) -> list[str]:
    return ["\n".join([f"**{title}**", "", *(f"- {item}" for item in items)])] if items else []


def _size(text: str) -> int:
    return len(text.encode())
