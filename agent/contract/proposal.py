"""What is believed to be wrong, and the change that is proposed against it, as values."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """A suspicious place: lines of one file, both ends included."""

    path: str
    first_line: int
    last_line: int
    score: float  # 0..1
    reason: str  # "in the traceback of 3 failing tests", "runs in failing tests only"
    name: str = ""  # qualified name of the function, where it is one


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What is believed to be wrong."""

    cause: str  # one or two sentences
    category: str  # "logic", "boundary", "import", "dependency", "lint", "types", …
    confidence: float  # 0..1
    by: str  # "model:<name>" or "verdicts and change"
    evidence: tuple[str, ...] = ()  # what was seen that speaks for it, a line each
    hypotheses: tuple[str, ...] = ()  # other causes that may be it, where the confidence is low
    places: tuple[str, ...] = ()  # where it has to be mended: "pkg/a.py::Class.method" or "pkg/a.py:12"


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file before and after, as text. `before=None` creates it, `after=None` removes it."""

    path: str
    before: str | None
    after: str | None


Edits = tuple[FileChange, ...]


@dataclass(frozen=True, slots=True)
class Candidate:
    """One proposed change, from whichever rung."""

    rung: str  # "tools", "patterns", "model:<name>"
    edits: Edits
    title: str  # what it does, one line: "`<` becomes `<=` in parse_range"
    reasoning: str = ""  # why, in the proposer's own words
    prior: float = 0.5  # how likely its proposer finds it, 0..1
    hypothesis: str = ""  # the cause that it was made for, where one was named
