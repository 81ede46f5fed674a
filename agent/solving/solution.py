"""What goes into a run of `solve`, and what comes out of it. Pure."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from agent.contract import words
from agent.contract.budget import Usage
from agent.contract.memory import Memory, ProcessMemory
from agent.contract.outcome import Iteration, Outcome
from agent.contract.question import Autonomy, Question, Reply
from agent.models.values import ModelError
from agent.solving.code import Files
from agent.solving.draft import Draft, path_of
from agent.solving.options import UserOptions
from agent.solving.specification import Specification


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(UserOptions):
    """The user's options, with the person who is asked and the memory."""

    # Shows the design to the user: False stops, None means that nobody was asked.
    confirm: Callable[[Draft], Awaitable[bool | None]] | None = None
    autonomy: Autonomy = "full"  # `decide` answers the questions that another one asks
    decide: Callable[[Question], Awaitable[Reply]] | None = None
    lessons: Memory = field(default_factory=ProcessMemory)  # of earlier runs, if `memory` is on

    def __post_init__(self) -> None:
        UserOptions.__post_init__(self)
        if self.autonomy in ("review_repairs", "review_all") and self.decide is None:
            raise ValueError(f"autonomy {self.autonomy!r} asks somebody before a round; give `decide`, which answers")


@dataclass(frozen=True, slots=True)
class Start:
    """Where to start instead of at the beginning: with a draft, and perhaps with tests and an answer of an earlier run."""

    draft: Draft
    tests: Files | None = None
    answer: Files | None = None
    hint: str = ""  # of the user, for models


@dataclass(frozen=True, slots=True)
class Progress:
    """What a run has so far: enough to start another one after any of its rounds."""

    draft: Draft
    tests: Files  # empty until they are written
    iterations: tuple[Iteration, ...]
    bases: tuple[Files, ...]  # for each iteration, the files that its diff changes
    lessons: tuple[str, ...]
    usage: Usage


Keep = Callable[[Progress], None]


@dataclass(frozen=True, slots=True)
class Solution(Progress):
    """The result. Without `solved`, `files` is the best answer, if there is one, and `reason` says what is wrong with it."""

    solved: bool
    name: str
    path: str
    files: Files  # without tests
    answer: Files  # the same in the form that the user chose
    first: Files  # the first answer, before any feedback; empty without one
    first_passed: bool  # the first answers sufficed
    outcome: Outcome  # how it ended
    reason: str
    next_step: str
    outage: str  # why the model could not be asked, a clause, if that is how it ended; else ""
    confidence: float | None
    doubts: tuple[str, ...]
    notes: tuple[str, ...]
    failing: tuple[str, ...]  # a line for each failing test: what was expected, and what came
    seconds: float

    @property
    def code(self) -> str:
        """The file with the function."""
        return self.files.get(self.path, "")


def undesigned(
    spec: Specification, error: ModelError, outcome: Outcome, *, next_step: str = "", seconds: float = 0.0
) -> Solution:
    """The result of a run whose model gave no design, or no answer that names the function."""
    return Solution(
        draft=Draft({}, path_of(spec), spec.name),
        tests={},
        iterations=(),
        bases=(),
        lessons=(),
        usage=error.usage,
        solved=False,
        name=spec.name,
        path=path_of(spec),
        files={},
        answer={},
        first={},
        first_passed=False,
        outcome=outcome,
        reason=f"{words.capitalized(str(error)).rstrip('.')}.",
        next_step=next_step,
        outage=str(error) if error.is_outage else "",
        confidence=None,
        doubts=(),
        notes=(),
        failing=(),
        seconds=round(seconds, 3),
    )


class Declined(Exception):
    """The user did not confirm the design."""
