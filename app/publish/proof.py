"""A repair's proof and the reflection log as Markdown for GitHub: failure, change, check results, confidence, iterations.

Pure; all untrusted text goes through a `Quoter`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from agent.contract import words
from agent.contract.budget import RungCost, Usage
from agent.contract.outcome import UNDECIDED, VERY_SURE, CheckEvidence, Evidence, Iteration, ReflectionLog, Repair
from agent.contract.proposal import Diagnosis, FileChange, is_model
from agent.contract.task import USUAL_CLEAR
from agent.diagnosis.evidence import BY_VERDICTS, CATEGORIES
from agent.gate.confidence import SURE
from app.publish.markdown import Quoter

_ROWS = 30  # checks in the evidence table


def headline(repair: Repair) -> str:
    """The repair's title without the location at its end, which is shown separately. Still untrusted text."""
    paths = "|".join(re.escape(change.path) for change in repair.edits)
    return re.sub(rf"\s*(?:\((?:{paths})(?::\d+)?\)|\bin (?:{paths}))$", "", repair.title) if paths else repair.title


def told(repair: Repair) -> tuple[str, str]:
    """What the repair does, in the imperative where its title allows that, and where. Still untrusted text."""
    what = headline(repair)
    found = re.fullmatch(r"(.*?)(?: in (`[^`]+`|[\w.]+))?", what, re.DOTALL)
    place = (found[2] or "") if found is not None else ""
    what = what[: -len(f" in {place}")] if place else what
    if not place and len(repair.edits) == 1 and what.strip():
        name = repair.edits[0].path.rpartition("/")[2]
        place = "" if name in what else name
    for clause, order in _ORDERS:
        what = re.sub(clause, order, what)
    return what, place


_ORDERS = (  # clauses of titles in the imperative
    (r"^(`[^`]+`) becomes (`[^`]+`)$", r"change \1 to \2"),
    (r"^(`[^`]+`) is added\b", r"add \1"),
    (r"^(`[^`]+`) is dropped\b", r"drop \1"),
)


def failed(evidence: Evidence) -> str:
    """ "3 failing tests" over all checks, or "3 failing results" if they include linter findings."""
    ids = [id_ for check in evidence.checks for id_ in check.target]
    return words.counted(len(ids), "failing result" if any(": " in id_ and "::" not in id_ for id_ in ids) else "failing test")


def in_one_line(evidence: Evidence) -> str:
    """ "1 failing → 3 passing → 1 failing with the patch reverted"."""
    return f"{turned(evidence)} → {sum(check.without_red for check in evidence.checks)} failing with the patch reverted"


def turned(evidence: Evidence) -> str:
    """ "1 failing → 3 passing"."""
    before, passing = (sum(getattr(check, name) for check in evidence.checks) for name in ("base_red", "with_green"))
    return f"{before} failing → {passing} passing"


def why(repair: Repair, quote: Quoter) -> str:
    """What fails, as the tests show it, or the cause that a model found."""
    name = "Fails" if repair.diagnosis.by == BY_VERDICTS else "Cause"
    return f"**{name}:** {quote.prose(repair.diagnosis.cause, 600)}"


def found(repair: Repair) -> str:
    """What Selfheal found, as a sentence."""
    if repair.confidence >= SURE:
        return "Selfheal found a verified repair."
    return "Selfheal found a possible repair: the failing tests pass with it, but Selfheal is not sure that it is right."


def sureness(repair: Repair) -> str:
    """ "fairly sure (87%): one other change passes too". The word is never "very sure" where the tests leave a choice."""
    confidence = repair.confidence
    grades = ((VERY_SURE, "very sure"), (USUAL_CLEAR, "fairly sure"), (0.4, "unsure"), (0.0, "a guess"))
    leaves_choice = repair.alternatives or repair.choices or any(doubt.startswith(UNDECIDED) for doubt in repair.doubts)
    grade = next(word for least, word in grades[1 if leaves_choice else 0 :] if confidence >= least or not least)
    by_model = bool(repair.log.iterations) and is_model(repair.log.iterations[-1].rung)
    rivals = max(repair.alternatives, len(repair.choices))
    rejected = sum(iteration.result.partition(": ")[0].endswith(" objects") for iteration in repair.log.iterations)
    if rejected and not rivals:
        others = (
            f"{words.counted(rejected, 'other change')} passed the tests, but {'was' if rejected == 1 else 'were'} rejected"
        )
    elif by_model and not rivals:
        is_searched = any(cost.rung == "patterns" and cost.seconds for cost in repair.log.rungs)
        others = (
            f"proposed by a model; {'the search found no other' if is_searched else 'there was no search for another'} change"
        )
    elif not rivals:
        others = "no other passing change was found"
        if repair.signals.get("passing") or repair.signals.get("alike"):
            others += ", apart from small variations of this one"
    else:
        count = "one other change passes" if rivals == 1 else f"{rivals} other changes pass"
        others = f"{count} too, so the tests alone do not decide; review carefully"
    return f"{grade} ({words.percent(confidence)}): {others}"


def rival(repair: Repair, quote: Quoter) -> str:
    """The strongest rival, as a sentence with a leading blank; "" if there is none."""
    return f" The likeliest other change: {quote.prose(repair.choices[0], 160)}." if repair.choices else ""


def doubts(repair: Repair, quote: Quoter) -> list[str]:
    """Why the confidence is not higher, and a warning if it is low: a paragraph each."""
    lines = [f"**Doubts:** {quote.prose('; '.join(repair.doubts), 1000)}."] if repair.doubts else []
    if repair.confidence < SURE:
        lines.append(
            "**Selfheal is not sure about this change.** Treat it as a suggestion and review every line before you use it."
        )
    return lines


def cause(diagnosis: Diagnosis, quote: Quoter) -> str:
    """The cause, its category with the confidence in it, and who made the diagnosis."""
    return f"{quote.paragraph(diagnosis.cause, 1500)}\n\n{kind(diagnosis, quote)}"


def kind(diagnosis: Diagnosis, quote: Quoter) -> str:
    """The category of the cause with the confidence in it, and who made the diagnosis."""
    likely_one = quote.prose(likely(diagnosis.category, diagnosis.confidence), 100)
    return f"{likely_one}. {quote.prose(source(diagnosis.by), 120)}."


def source(by: str) -> str:
    """Who made a diagnosis; untrusted text if that is a model's name."""
    if by == BY_VERDICTS:
        return "Inferred from test results; no model used"
    return f"Diagnosed by {words.rung(by) if is_model(by) else by}"


def likely(category: str, confidence: float) -> str:
    """ "Likely type error (70%)"; untrusted text if the category is unknown."""
    kind = "Unclassified" if category == "other" else f"Likely {CATEGORIES.get(category, category)}"
    return f"{kind} ({words.percent(confidence)})"


def failing_ids(evidence: Evidence, quote: Quoter, ids: int) -> list[str]:
    """For each check, at most `ids` of its failing ids."""
    shown = [_check_ids(check, quote, ids) for check in evidence.checks[:_ROWS] if check.target]
    return [*shown, *more(len(evidence.checks) - _ROWS, "check")]


def _check_ids(check: CheckEvidence, quote: Quoter, ids: int) -> str:
    listed = "\n".join(f"- {quote.span(words.verdict(i), 240)}" for i in check.target[:ids])
    rest = len(check.target) - ids
    text = f"{quote.span(check.check, 80)}, run by {quote.span(check.command, 300)}:\n\n{listed}"
    return text + (f"\n\n… and {rest} more." if rest > 0 else "")


def changed(repair: Repair, quote: Quoter) -> str:
    """One line per file."""
    lines = [f"- {_change(change, quote)}" for change in repair.edits[:50]]
    return "\n".join([*lines, *(f"- {line}" for line in more(len(repair.edits) - 50, "file"))])


def files(repair: Repair, quote: Quoter) -> str:
    """ "`src/a.py`" or "4 files", for a sentence."""
    paths = [change.path for change in repair.edits]
    return quote.span(paths[0], 240) if len(paths) == 1 else words.counted(len(paths), "file")


def _change(change: FileChange, quote: Quoter) -> str:
    name = quote.span(change.path, 240)
    if change.before is None:
        return f"{name}: new, {words.counted(len((change.after or '').splitlines()), 'line')}"
    if change.after is None:
        return f"{name}: removed"
    # Counting equal lines is fast on any file; a moved line counts as neither added nor removed.
    old, new = Counter(change.before.splitlines()), Counter(change.after.splitlines())
    return f"{name}: +{(new - old).total()} −{(old - new).total()}"


def table(evidence: Evidence, quote: Quoter) -> str:
    rows = ["| Check | Before | With the patch | Patch reverted |", "|---|---|---|---|"]
    for c in evidence.checks[:_ROWS]:
        back = f"{c.without_red} of {len(c.target)} failed again, {words.took(c.without_seconds)}" if c.target else "not needed"
        rows.append(
            f"| {quote.cell(c.check)} "
            f"| {c.base_red} failed, {c.base_green} passed, {words.took(c.base_seconds)} "
            f"| {c.with_red} failed, **{c.with_green} passed**, {words.took(c.with_seconds)} "
            f"| {back} |"
        )
    # Without a blank line, the next line would become part of the table.
    return "\n".join([*rows, *(f"\n{line}" for line in more(len(evidence.checks) - _ROWS, "check"))])


def more(count: int, noun: str) -> list[str]:
    return [f"… and {count} more {noun}{'s' if count > 1 else ''}."] if count > 0 else []


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
        if size(text) <= limit:
            return text
    for kept in (20, 8, 3, 1, 0):
        text = _whole(log, log.iterations[-kept:] if kept else (), quote, 0)
        if size(text) <= limit:
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
        parts.append(f"The first {left_out} of {len(log.iterations)} candidates are omitted to save space.")
    parts += [_iteration(at, iteration, quote, diff) for at, iteration in enumerate(iterations, left_out + 1)]
    # A lesson that starts with a change's title is already shown with that change.
    titles = tuple(iteration.title[:160] for iteration in log.iterations if iteration.title)
    parts += _list("Lessons", [quote.prose(lesson, 400) for lesson in log.lessons[:5] if not lesson.startswith(titles)])
    parts += _list("Notes", [quote.prose(note, 600) for note in log.notes[:20]])
    return "\n\n".join(parts)


def _iteration(number: int, iteration: Iteration, quote: Quoter, diff: int) -> str:
    """`number` counts the candidates, from 1; the iteration's own counts rounds, and one without a candidate is not told."""
    rung = quote.prose(words.rung(iteration.rung), 120)
    lines = [
        f"**Candidate {number}**, {rung}: {quote.prose(iteration.title, 200)}",
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


def size(text: str) -> int:
    return len(text.encode())
