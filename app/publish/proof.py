"""A repair's proof as Markdown for GitHub: the failure, the change, the check results and the confidence.

Pure; all untrusted text passes a `Quoter`.
"""

from __future__ import annotations

import re
from collections import Counter

from agent.contract import words
from agent.contract.outcome import CheckEvidence, Evidence, Repair
from agent.contract.proposal import Diagnosis, FileChange
from agent.contract.rungs import is_model
from agent.diagnosis.evidence import BY_VERDICTS, CATEGORIES
from agent.gate.confidence import SURE
from app.publish.markdown import Quoter

_ROWS = 30  # checks in the evidence table


def headline(repair: Repair) -> str:
    """The repair's title without the location at its end, which is shown separately. Still untrusted text."""
    paths = "|".join(re.escape(change.path) for change in repair.edits)
    return re.sub(rf"\s*\((?:{paths})(?::\d+)?\)$", "", repair.title) if paths else repair.title


def failed(evidence: Evidence) -> str:
    """ "3 failing tests" over all checks, or "3 failing results" if they include linter findings."""
    ids = [id_ for check in evidence.checks for id_ in check.target]
    return words.counted(len(ids), "failing result" if any(": " in id_ and "::" not in id_ for id_ in ids) else "failing test")


def sureness(repair: Repair) -> str:
    confidence = repair.confidence
    grades = ((0.9, "very sure"), (0.7, "fairly sure"), (0.4, "unsure"), (0.0, "a guess"))
    grade = next(word for least, word in grades if confidence >= least or not least)
    by_model = bool(repair.log.iterations) and is_model(repair.log.iterations[-1].rung)
    if by_model:
        others = "proposed by a model; alternatives were not searched"
    elif repair.alternatives == 0:
        others = "no other passing change was found"
    else:
        count = "one other change passes" if repair.alternatives == 1 else f"{repair.alternatives} other changes pass"
        others = f"{count} too{', so the tests alone do not decide; review carefully' if confidence < 0.9 else ''}"
    return f"{grade} ({percent(confidence)}): {others}"


def doubts(repair: Repair, quote: Quoter) -> list[str]:
    """List items: why the confidence is not higher, and a warning if it is low."""
    lines = [f"- **Doubts:** {quote.prose('; '.join(repair.doubts), 1000)}."] if repair.doubts else []
    if repair.confidence < SURE:
        lines.append(
            "- **Selfheal is not sure about this change.** Treat it as a suggestion and review every line before you use it."
        )
    return lines


def cause(diagnosis: Diagnosis, quote: Quoter) -> str:
    return f"{quote.prose(diagnosis.cause, 1500)}\n\n{classification(diagnosis, quote)}"


def classification(diagnosis: Diagnosis, quote: Quoter) -> str:
    """The category of the cause, its confidence and its source."""
    kind = quote.prose(likely(diagnosis.category, diagnosis.confidence), 100)
    return f"{kind}. {quote.prose(source(diagnosis.by), 120)}."


def source(by: str) -> str:
    """Who made a diagnosis. Untrusted text for a model's name."""
    if by == BY_VERDICTS:
        return "Inferred from test results; no model used"
    return f"Diagnosed by {words.rung(by) if is_model(by) else by}"


def likely(category: str, confidence: float) -> str:
    """ "Likely type error (70%)". Untrusted text for an unknown category."""
    kind = "Unclassified" if category == "other" else f"Likely {CATEGORIES.get(category, category)}"
    return f"{kind} ({percent(confidence)})"


def failing_ids(evidence: Evidence, quote: Quoter, ids: int) -> list[str]:
    """For each check its failing ids, at most `ids` of them."""
    shown = [_check_ids(check, quote, ids) for check in evidence.checks[:_ROWS] if check.target]
    return [*shown, *more(len(evidence.checks) - _ROWS, "check")]


def _check_ids(check: CheckEvidence, quote: Quoter, ids: int) -> str:
    listed = quote.fence("\n".join(" ".join(quote.clean(i, 240).split()) for i in check.target[:ids]), 8000)
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


def percent(value: float) -> str:
    return f"{max(0.0, min(1.0, value)):.0%}"
