"""What is wrong, told without a model: from the failing verdicts, and from the change where one was found. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from agent import words
from agent.contract.events import Diagnosed
from agent.contract.proposal import Candidate, Diagnosis
from agent.contract.verdicts import Failure
from agent.edits.changes import added, removed

BY_VERDICTS = "verdicts and change"  # in place of a model
UNSURE = 0.5  # confidence below which other causes are tried beside
CATEGORIES: Mapping[str, str] = {
    "logic": "wrong logic",
    "boundary": "a wrong boundary or comparison",
    "types": "values of the wrong type",
    "import": "an import that does not work",
    "dependency": "a dependency that is missing or has changed",
    "name": "a name that does not exist",
    "api": "a call that does not fit what it calls",
    "async": "asynchronous code that is not awaited as it should be",
    "encoding": "text read or written in the wrong encoding",
    "state": "state that is shared or left behind",
    "resource": "a file or another resource that is not there or not closed",
    "lint": "a linter's finding",
    "format": "formatting",
    "build": "code that does not parse or build",
    "test": "the test itself",
    "other": "something else",
}
"""What a cause may be filed under, and how people call it; a model's answer is coerced to one of these."""

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


def of_repair(failures: Sequence[Failure], change: Candidate, known: Diagnosis | None) -> Diagnosis:
    """What was wrong, now that a change mended it: the cause that it was made for, else what verdicts and change tell."""
    if not change.rung.startswith("model") or not (change.hypothesis or known):
        return from_verdicts(failures, change)
    if known is not None:
        return replace(known, cause=change.hypothesis or known.cause, hypotheses=())
    category = _category(failures[0] if failures else None, change)
    return Diagnosis(change.hypothesis, category, 0.7, change.rung)


def from_verdicts(failures: Sequence[Failure], change: Candidate | None = None) -> Diagnosis:
    """The cause as the failing verdicts tell it; with the change that mended it, much surer."""
    first = failures[0] if failures else None
    told = _failing(failures)
    if change is None:
        where = f" It is raised in {_raised(first)}." if first is not None and first.frames else ""
        return Diagnosis(told + where, _category(first, None), 0.3, BY_VERDICTS)
    return Diagnosis(f"{told} {_mended(failures, change)}", _category(first, change), 0.7, BY_VERDICTS)


def _failing(failures: Sequence[Failure]) -> str:
    """One sentence without lists: the evidence has the ids."""
    if not failures:
        return "A check fails."
    count, first = len(failures), failures[0]
    message = words.code(first.message) if first.message else ""
    if _is_finding(first):
        return f"{words.opening(count, 'finding')}{', the first of them' if count > 1 else ''}: {message or 'no message'}."
    names = {str(failure.id).partition("[")[0] for failure in failures}
    name = words.code(names.pop().rpartition("::")[2], 80) if len(names) == 1 else ""
    if name and count > 1:
        subject = f"{words.opening(count, 'case')} of {name} fail"
    else:
        subject = f"{name} fails" if name else f"{words.opening(count, 'test')} fail"
    if not message:
        return f"{subject}."
    alike = len({failure.message for failure in failures}) == 1
    return f"{subject} with {message}." if alike else f"{subject}, the first with {message}."


def _raised(failure: Failure) -> str:
    inner = failure.frames[-1]
    at = f"{inner.path}:{inner.line}"
    return f"{words.code(inner.function, 80)} ({at})" if inner.function.strip("<>") else at


def _mended(failures: Sequence[Failure], change: Candidate) -> str:
    """What made it green. A title that names its place is enough; else the files are named."""
    paths = [edit.path for edit in change.edits]
    where = "" if any(path in change.title for path in paths) else f" ({', '.join(paths[:3])}{', …' if len(paths) > 3 else ''})"
    it = "It" if len(failures) == 1 else "They"
    if failures and _is_finding(failures[0]):
        verb = "is gone" if len(failures) == 1 else "are gone"
    else:
        verb = "passes" if len(failures) == 1 else "pass"
    joined = f"once {change.title}" if change.rung == "patterns" else f"with this change: {change.title.rstrip('.')}"
    return f"{it} {verb} {joined}{where}."


def _is_finding(failure: Failure) -> bool:
    return "::" not in failure.id and ": " in failure.id


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


def event(found: Diagnosis, text: str = "") -> Diagnosed:
    """What is believed, for the timeline; without a text where it is no news."""
    return Diagnosed(
        text=text,
        cause=found.cause,
        category=found.category,
        confidence=found.confidence,
        by=found.by,
        evidence=list(found.evidence),
    )
