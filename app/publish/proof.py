"""A repair's proof as Markdown for GitHub: what failed, what was changed, what the checks said, how sure that makes us.

Pure; all outside text passes a `Quoter`.
"""

from __future__ import annotations

import re
from collections import Counter

from agent import words
from agent.contract.outcome import CheckEvidence, Evidence, Repair
from agent.contract.proposal import Diagnosis, FileChange
from agent.diagnosis.evidence import BY_VERDICTS, CATEGORIES
from agent.gate.confidence import SURE
from app.publish.markdown import Quoter

_ROWS = 30  # checks in the evidence table


def headline(repair: Repair) -> str:
    """The repair's title without the place at its end, which is told beside it. Outside text still."""
    paths = "|".join(re.escape(change.path) for change in repair.edits)
    return re.sub(rf"\s*\((?:{paths})(?::\d+)?\)$", "", repair.title) if paths else repair.title


def failed(evidence: Evidence) -> str:
    """ "3 failing tests" over all checks; "results" where a linter's findings are among them."""
    ids = [id_ for check in evidence.checks for id_ in check.target]
    return words.counted(len(ids), "failing result" if any(": " in id_ and "::" not in id_ for id_ in ids) else "failing test")


def sureness(repair: Repair) -> str:
    confidence = repair.confidence
    grades = ((0.9, "very sure"), (0.7, "fairly sure"), (0.4, "unsure"), (0.0, "a guess"))
    grade = next(word for least, word in grades if confidence >= least or not least)
    by_model = bool(repair.log.iterations) and repair.log.iterations[-1].rung.startswith("model")
    if by_model:
        others = "a model proposed it, and other changes that would pass were not looked for"
    elif repair.alternatives == 0:
        others = "no other change was found that passes"
    else:
        count, pass_ = (
            ("one other change", "passes") if repair.alternatives == 1 else (f"{repair.alternatives} other changes", "pass")
        )
        others = f"{count} {pass_} too{', so the tests alone do not decide: look closely' if confidence < 0.9 else ''}"
    return f"{grade} ({percent(confidence)}): {others}"


def doubts(repair: Repair, quote: Quoter) -> list[str]:
    """Lines of a list: why the confidence is not higher, and what follows for who reads it where it is low."""
    lines = [f"- **Doubts:** {quote.prose('; '.join(repair.doubts), 1000)}."] if repair.doubts else []
    if repair.confidence < SURE:
        lines.append(
            "- **Selfheal is not sure of this change.** Take it as a suggestion: read it line by line before you use it."
        )
    return lines


def cause(diagnosis: Diagnosis, quote: Quoter) -> str:
    return f"{quote.prose(diagnosis.cause, 1500)}\n\n{filed(diagnosis, quote)}"


def filed(diagnosis: Diagnosis, quote: Quoter) -> str:
    """Under what the cause is filed, and who says so."""
    kind = CATEGORIES.get(diagnosis.category) or quote.prose(diagnosis.category, 60)
    if diagnosis.by == BY_VERDICTS:
        return f"Kind: {kind}. Told by the failing checks alone, without a model."
    who = words.rung(diagnosis.by) if diagnosis.by.startswith("model:") else diagnosis.by
    return f"Kind: {kind}. Diagnosed by {quote.prose(who, 100)}, {percent(diagnosis.confidence)} sure."


def red(evidence: Evidence, quote: Quoter, ids: int) -> list[str]:
    """For each check the ids that were red, at most `ids` of them."""
    shown = [_red(check, quote, ids) for check in evidence.checks[:_ROWS] if check.target]
    return [*shown, *more(len(evidence.checks) - _ROWS, "check")]


def _red(check: CheckEvidence, quote: Quoter, ids: int) -> str:
    listed = quote.fence("\n".join(" ".join(quote.clean(i, 240).split()) for i in check.target[:ids]), 8000)
    rest = len(check.target) - ids
    text = f"{quote.span(check.check, 80)}, run by {quote.span(check.command, 300)}:\n\n{listed}"
    return text + (f"\n\n… and {rest} more." if rest > 0 else "")


def changed(repair: Repair, quote: Quoter) -> str:
    """One line a file."""
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
    # By counting equal lines: quick on any file; a line that only moved counts as neither.
    old, new = Counter(change.before.splitlines()), Counter(change.after.splitlines())
    return f"{name}: +{(new - old).total()} −{(old - new).total()}"


def table(evidence: Evidence, quote: Quoter) -> str:
    rows = ["| check | before | with the change | change taken back |", "|---|---|---|---|"]
    for c in evidence.checks[:_ROWS]:
        back = f"{c.without_red} of {len(c.target)} red again, {words.took(c.without_seconds)}" if c.target else "not needed"
        rows.append(
            f"| {quote.cell(c.check)} "
            f"| {c.base_red} red, {c.base_green} green, {words.took(c.base_seconds)} "
            f"| {c.with_red} red, **{c.with_green} green**, {words.took(c.with_seconds)} "
            f"| {back} |"
        )
    # The line that follows a table belongs to it, unless a blank one stands between.
    return "\n".join([*rows, *(f"\n{line}" for line in more(len(evidence.checks) - _ROWS, "check"))])


def more(count: int, noun: str) -> list[str]:
    return [f"… and {count} more {noun}{'s' if count > 1 else ''}."] if count > 0 else []


def percent(value: float) -> str:
    return f"{max(0.0, min(1.0, value)):.0%}"
