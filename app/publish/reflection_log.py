"""The reflection log as Markdown for GitHub: diagnosis, iterations, lessons and notes. Pure; all of it is untrusted text."""

from __future__ import annotations

from collections.abc import Sequence

from agent.contract import words
from agent.contract.outcome import Iteration, ReflectionLog
from agent.contract.usage import RungCost, Usage
from app.publish.markdown import Quoter

_SHRINK = (2000, 600, 0)
"""Characters of each iteration's diff, tried in turn until the log fits."""

_MOST = 60
"""Maximum number of iterations shown; more would not fit."""

_TRIED = 8  # failed changes in the summary


def log_markdown(log: ReflectionLog, quote: Quoter, limit: int) -> str | None:
    """At most `limit` bytes (UTF-8); None if the log is empty, "" if nothing fits.

    To fit, diffs are dropped first, then the oldest iterations, then the rest.
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
    """The failed changes, newest first, one line each; "" if there are none."""
    failed = [iteration for iteration in reversed(log.iterations) if iteration.result != "verified"]
    lines = [f"- {quote.prose(i.title, 160)}: {quote.prose(i.result, 300)}" for i in failed[:_TRIED]]
    if len(failed) > _TRIED:
        lines.append(f"- … and {len(failed) - _TRIED} earlier changes.")
    return "\n".join(lines)


def spent(usage: Usage) -> str:
    """The cost in words: "3 model calls, 1,200 tokens, $0.0042"."""
    if usage.calls == 0:
        return "$0, no model used"
    tokens = usage.tokens_in + usage.tokens_out
    counts = f"{tokens:,} tokens ({usage.tokens_in:,} in, {usage.tokens_out:,} out)"
    return f"{words.counted(usage.calls, 'model call')}, {counts}, {_price(usage)}"


def _price(usage: Usage) -> str:
    if usage.cost is None:
        return "unknown price"
    price = f"${usage.cost:.4f}" if 0 < usage.cost < 0.1 else f"${usage.cost:.2f}"
    if usage.unpriced:
        return f"at least {price} (unknown price for {words.counted(usage.unpriced, 'call')})"
    return price


def _whole(log: ReflectionLog, iterations: Sequence[Iteration], quote: Quoter, diff: int) -> str:
    parts: list[str] = []
    if log.diagnosis is not None:
        parts.append(f"**Diagnosis:** {quote.prose(log.diagnosis.cause, 600)}")
    parts += _list("Rungs", [_rung(rung, quote) for rung in log.rungs[:20]])
    if left_out := len(log.iterations) - len(iterations):
        parts.append(f"The first {left_out} of {len(log.iterations)} iterations are omitted to save space.")
    parts += [_iteration(iteration, quote, diff) for iteration in iterations]
    # A lesson that starts with a change's title is already shown with that change.
    titles = tuple(iteration.title[:160] for iteration in log.iterations if iteration.title)
    parts += _list("Lessons", [quote.prose(lesson, 400) for lesson in log.lessons[:5] if not lesson.startswith(titles)])
    parts += _list("Notes", [quote.prose(note, 600) for note in log.notes[:20]])
    return "\n\n".join(parts)


def _iteration(iteration: Iteration, quote: Quoter, diff: int) -> str:
    rung = quote.prose(words.rung(iteration.rung), 120)
    lines = [
        f"**Iteration {iteration.number}**, {rung}: {quote.prose(iteration.title, 200)}",
        f"- Result: {quote.prose(iteration.result, 300)}",
    ]
    if iteration.lesson:
        lines.append(f"- Lesson: {quote.prose(iteration.lesson, 400)}")
    text = "\n".join([lines[0], "", *lines[1:]])
    return f"{text}\n\n{quote.fence(iteration.diff, diff, 'diff')}" if iteration.diff and diff else text


def _rung(rung: RungCost, quote: Quoter) -> str:
    """ "Mutation search tried 56 changes in 1.4 s; 1 makes the failing tests pass (60 a second)."."""
    cost = f"; {spent(rung.usage)}" if rung.usage.calls else ""
    return quote.prose(f"{words.capitalized(words.effort(rung))}{cost}", 400) + "."


def _list(title: str, items: Sequence[str]) -> list[str]:
    return ["\n".join([f"**{title}**", "", *(f"- {item}" for item in items)])] if items else []


def _size(text: str) -> int:
    return len(text.encode())
