"""The diagnosis, and the change proposed to fix it. Values only."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """Suspicious lines of one file, both ends included."""

    path: str
    first_line: int
    last_line: int
    score: float  # 0..1
    reason: str  # "in the traceback of 3 failing tests", "runs in failing tests only"
    name: str = ""  # qualified name of the function, if any


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The likely cause."""

    cause: str  # one or two sentences
    category: str  # "logic", "boundary", "import", "dependency", "lint", "types", …
    confidence: float  # 0..1
    by: str  # "model:<name>" or "verdicts and change"
    evidence: tuple[str, ...] = ()  # observations that support it, one line each
    hypotheses: tuple[str, ...] = ()  # other possible causes, if the confidence is low
    places: tuple[str, ...] = ()  # where to change the code: "pkg/a.py::Class.method" or "pkg/a.py:12"
    observed: tuple[str, ...] = ()  # what was run to find it, with the output: untrusted text


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file before and after, as text. `before=None` creates it, `after=None` removes it."""

    path: str
    before: str | None
    after: str | None


Edits = tuple[FileChange, ...]


@dataclass(frozen=True, slots=True)
class Candidate:
    """One proposed change, from any rung."""

    rung: str  # "tools", "history", "patterns", "model:<name>"
    edits: Edits
    title: str  # one line: "`<` becomes `<=` in parse_range"
    reasoning: str = ""  # the proposer's own words
    prior: float = 0.5  # the proposer's own estimate, 0..1
    hypothesis: str = ""  # the cause it addresses, if one was named


def is_model(rung: str) -> bool:
    """Whether a rung asks a model: it is named "model:<name>"; no other name starts with "model"."""
    return rung.startswith("model")


def rung_kind(rung: str) -> str:
    """The name without its variant, as policies and configurations write it: "model" for "model:gpt-x"."""
    return rung.partition(":")[0]


def is_search(rung: str) -> bool:
    """Whether its changes are our own mutations of the code: these can be wrong, but are not made to deceive."""
    return rung_kind(rung) == "patterns"


def model_name(rung: str) -> str:
    """ "gpt-x" for "model:gpt-x"; "" for a rung without a model."""
    return rung.partition(":")[2] if is_model(rung) else ""
