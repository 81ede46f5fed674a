"""Diagnoses without a model, from the failing verdicts and the change, if any. Finds the causes that are not refuted. Pure.

A change that leaves the failure exactly as it was refutes its cause; so does the second failed change for the same cause. A
change that alters the failure does not: its cause may still be right.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from agent.contract import words
from agent.contract.events import Diagnosed
from agent.contract.proposal import Candidate, Diagnosis, is_model
from agent.contract.verdicts import EXIT, Failure, Frame
from agent.edits.changes import added, removed
from agent.source.test_files import is_test

BY_VERDICTS = "verdicts and change"  # the diagnosis's `by` without a model
UNSURE = 0.5  # confidence below which other causes are tried too
CATEGORIES: Mapping[str, str] = {
    "logic": "logic error",
    "boundary": "off-by-one or wrong comparison",
    "types": "type error",
    "import": "broken import",
    "dependency": "missing or changed dependency",
    "name": "undefined name",
    "api": "wrong use of an API",
    "async": "missing await",
    "encoding": "wrong text encoding",
    "state": "shared or leaked state",
    "resource": "missing or unclosed resource",
    "lint": "lint finding",
    "format": "formatting",
    "build": "syntax or build error",
    "test": "faulty test",
    "other": "something else",
}
"""The categories of a cause with their labels; a model's answer is coerced to one of these."""

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
SAME = 0.75  # share of common words above which two sentences are similar
_WORD = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*|\d+|[^\w\s'\"`.,;:()]+")
_STOP_WORDS = frozenset(
    {"a", "an", "the", "is", "are", "was", "of", "to", "in", "on", "and", "it", "its", "that", "this", "which", "so"}
)
_COMPARISON = re.compile(r"<=|>=|<|>|[+-]\s*1\b")


def of_repair(failures: Sequence[Failure], change: Candidate, known: Diagnosis | None) -> Diagnosis:
    """The diagnosis after a repair: the cause that the change addressed, else what failed, as the verdicts show it."""
    if not is_model(change.rung) or not (change.hypothesis or known):
        return replace(for_people(failures), category=_category(failures[0] if failures else None, change), confidence=0.7)
    if known is not None:
        return replace(known, cause=change.hypothesis or known.cause, hypotheses=())
    category = _category(failures[0] if failures else None, change)
    return Diagnosis(change.hypothesis, category, 0.7, change.rung)


def from_verdicts(failures: Sequence[Failure]) -> Diagnosis:
    """The cause inferred from the failing verdicts, for models: they see the traceback too."""
    first = failures[0] if failures else None
    where = f" {_raised(first.frames[-1])}" if first is not None and first.frames else ""
    return Diagnosis(_failing(failures) + where, _category(first, None), 0.3, BY_VERDICTS)


def for_people(failures: Sequence[Failure]) -> Diagnosis:
    """As `from_verdicts`, with the line of the test that fails, if it is known."""
    plain = from_verdicts(failures)
    first = failures[0] if failures else None
    inner = first.frames[-1] if first is not None and first.frames else None
    if first is None or inner is None or not is_test(inner.path) or not (line := _line_of(first, inner)):
        return plain
    shown = f"{words.code(line)} ({inner.path}:{inner.line})"
    if re.fullmatch(r"[\w.]+", first.message) and (cut := f" with {words.code(first.message)}.") in (
        said := _failing(failures)
    ):
        return replace(plain, cause=said.replace(cut, f": {shown}."))  # a bare "AssertionError" says nothing
    return replace(plain, cause=f"{_failing(failures)} It fails at {shown}.")


def _line_of(failure: Failure, frame: Frame) -> str:
    """The source of a frame's line, as tracebacks of Python and pytest print it; "" if they do not."""
    at, printed = rf"(?:^|[/\"]){re.escape(frame.path.rpartition('/')[2])}(?:\", line |:){frame.line}", ""
    lines = failure.details.splitlines()
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        if re.search(rf"{at}[:,] in ", line) and after.strip():
            return after.strip()
        if line.startswith("> "):
            printed = line[1:].strip()
        elif re.search(rf"{at}: ", line):
            return printed
    return ""


def _failing(failures: Sequence[Failure]) -> str:
    """The failures in one sentence, without ids, since the evidence lists them."""
    if not failures:
        return "A check fails."
    count, first = len(failures), failures[0]
    message = words.code(first.message) if first.message else ""
    if re.fullmatch(words.HUNG + r"[\d.e+]+ s", first.message):
        message = f"a timeout: it {first.message}"
    if _is_finding(first):
        return f"{words.counted(count, 'finding')}{', the first' if count > 1 else ''}: {message or 'no message'}."
    if {failure.id for failure in failures} == {EXIT}:
        return f"{words.capitalized(words.verdict(EXIT))} fails{f' with {message}' if message else ''}."
    names = {str(failure.id).partition("[")[0] for failure in failures}
    name = words.code(names.pop().rpartition("::")[2], 80) if len(names) == 1 else ""
    if name and count > 1:
        subject = f"{words.counted(count, 'case')} of {name} fail"
    else:
        subject = f"{name} fails" if name else f"{words.counted(count, 'test')} fail"
    if not message:
        return f"{subject}."
    is_same = len({failure.message for failure in failures}) == 1
    return f"{subject} with {message}." if is_same else f"{subject}, the first with {message}."


def _raised(frame: Frame) -> str:
    at = f"{frame.path}:{frame.line}"
    return f"It is raised in {f'{words.code(frame.function, 80)} ({at})' if frame.function.strip('<>') else at}."


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
    """The diagnosis as an event for the timeline; `text` is empty if it is already known."""
    return Diagnosed(
        text=text,
        cause=found.cause,
        category=found.category,
        confidence=found.confidence,
        by=found.by,
        evidence=list(found.evidence),
    )


def causes_left(diagnosis: Diagnosis, refuted: Sequence[str]) -> tuple[str, ...]:
    """The causes that are not refuted, likeliest first."""
    causes = (diagnosis.cause, *diagnosis.hypotheses)
    return tuple(cause for cause in causes if not any(is_similar(cause, each) for each in refuted))


def is_similar(one: str, other: str) -> bool:
    """Do two sentences use the same words, in any order? Names, numbers and operators count as words."""
    a, b = _words(one), _words(other)
    return one == other or (bool(a | b) and len(a & b) / len(a | b) >= SAME)


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.lower())) - _STOP_WORDS
