"""What is wrong, told without a model: from the failing verdicts, and from the change where one was found. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agent.edits import added, removed
from agent.endings import named
from agent.task import Candidate, Diagnosis, Failure

BY_VERDICTS = "verdicts and change"
CATEGORIES = (
    "logic",
    "boundary",
    "types",
    "import",
    "dependency",
    "name",
    "api",
    "async",
    "encoding",
    "state",
    "resource",
    "lint",
    "format",
    "build",
    "test",
    "other",
)
"""What a cause may be filed under; a model's answer is coerced to one of these."""

_BY_MESSAGE = (
    (r"\b(ModuleNotFoundError|ImportError)\b", "import"),
    (r"\b(NameError|UnboundLocalError)\b", "name"),
    (r"\b(AttributeError|DeprecationWarning)\b|unexpected keyword argument", "api"),
    (r"\b(IndexError|ZeroDivisionError|RecursionError|OverflowError)\b", "boundary"),
    (r"\bUnicode\w+Error\b", "encoding"),
    (r"was never awaited|\bcoroutine\b|event loop", "async"),
    (r"\bTypeError\b", "types"),
    (r"\b(ResourceWarning|FileNotFoundError|PermissionError|OSError)\b", "resource"),
    (r"\b(SyntaxError|IndentationError)\b", "build"),
)
_COMPARISON = re.compile(r"<=|>=|<|>|[+-]\s*1\b")


def from_verdicts(failures: Sequence[Failure], change: Candidate | None = None) -> Diagnosis:
    """The cause as the failing verdicts tell it; with the change that mended it, much surer."""
    ids = [str(failure.id) for failure in failures]
    first = failures[0] if failures else None
    told = f"{named(ids)} fail{'s' if len(ids) == 1 else ''}" if ids else "A check is red"
    if first is not None and first.message:
        told += f" with {first.message[:200]!r}"
    if first is not None and first.frames:
        inner = first.frames[-1]
        told += f", raised at {inner.path}:{inner.line}" + (f" in {inner.function}" if inner.function else "")
    if change is None:
        return Diagnosis(f"{told}.", _category(first, None), 0.3, BY_VERDICTS)
    where = ", ".join(edit.path for edit in change.edits)
    return Diagnosis(
        f"{told}. The verdicts turn green when {change.title} ({where}).", _category(first, change), 0.7, BY_VERDICTS
    )


def _category(failure: Failure | None, change: Candidate | None) -> str:
    message = f"{failure.message}\n{failure.details}" if failure else ""
    if failure is not None and re.match(r"\S+: [A-Z]{1,4}\d{2,5}\b", str(failure.id)):
        return "lint"
    for pattern, category in _BY_MESSAGE:
        if re.search(pattern, message):
            return category
    if change is not None:
        before, after = ("".join(side(change.edits)) for side in (removed, added))
        if sorted(_COMPARISON.findall(before)) != sorted(_COMPARISON.findall(after)):
            return "boundary"
    return "logic"
