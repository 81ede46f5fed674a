"""The timeline of an attempt: one typed union for the CLI, the pages and the tests.

Every node of the graph emits at least one event. Texts in events are bounded. `msgspec.json.encode(event)` gives
`{"kind": …, …}`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from agent.contract.outcome import CheckEvidence


class Event(msgspec.Struct, frozen=True, tag_field="kind", kw_only=True):
    """Base of all events. `text` is one line of progress for people, or empty."""

    text: str


class StepStarted(Event, frozen=True, tag="step_started", kw_only=True):
    step: str  # node of the graph, or "gather", "install", "publish"


class StepDone(Event, frozen=True, tag="step_done", kw_only=True):
    step: str
    seconds: float
    tokens: int = 0  # used by models in this step


class Reproduced(Event, frozen=True, tag="reproduced", kw_only=True):
    red: list[str]  # verdict ids, at most 50
    red_count: int
    green_count: int
    seconds: float
    environment: str = ""  # "Python 3.11.7, sandbox local, no network"
    approximated: list[str] = []  # differences from CI


class Probed(Event, frozen=True, tag="probed", kw_only=True):
    """Another run of the same code, to see whether a failure is flaky and what it depends on."""

    run: int  # from 1
    under: str  # conditions, as a clause
    red: list[str]  # verdict ids, at most 50


class Compared(Event, frozen=True, tag="compared", kw_only=True):
    """The failing verdicts, run at the last good commit."""

    good: str
    broke: list[str]  # ids that pass there, at most 50
    left: list[str]  # ids that fail there too and left the target, at most 50


class Localized(Event, frozen=True, tag="localized", kw_only=True):
    suspects: list[str]  # "pkg/a.py:10-24 score reason", best first, at most 20


class Remembered(Event, frozen=True, tag="remembered", kw_only=True):
    """Lessons of earlier attempts at similar failures in this repository."""

    attempts: list[str]  # their ids
    lessons: list[str]


class CulpritFound(Event, frozen=True, tag="culprit_found", kw_only=True):
    """The smallest part of the change since the last good commit that broke the tests (`agent.contract.last_good.Culprit`)."""

    good: str  # the commit, for people
    places: list[str]  # "pkg/a.py:12-13" in the failing commit, at most 50
    lines: int  # changed lines of that part, as in `Culprit`
    of: int  # changed lines of the whole change
    diff: str  # of that part, from the good commit to the failing one
    breaks: list[str] = []  # ids that fail without that part, at most 50
    breaks_count: int = 0


class Diagnosed(Event, frozen=True, tag="diagnosed", kw_only=True):
    cause: str
    category: str
    confidence: float
    by: str
    evidence: list[str] = []


class Proposed(Event, frozen=True, tag="proposed", kw_only=True):
    rung: str
    title: str
    diff: str
    iteration: int


class Guarded(Event, frozen=True, tag="guarded", kw_only=True):
    """The policy refused a candidate before anything ran."""

    title: str
    rule: str


class Verified(Event, frozen=True, tag="verified", kw_only=True):
    """Whether everything passes with one candidate."""

    title: str
    passed: bool
    still_red: list[str]
    newly_red: list[str]
    seconds: float


class Selected(Event, frozen=True, tag="selected", kw_only=True):
    """The winner among the candidates that pass."""

    title: str
    among: int
    why: str
    diff: str


class Proven(Event, frozen=True, tag="proven", kw_only=True):
    """The gate's proof of the winner: the target passes every time with it and fails again without it."""

    title: str
    passed: bool
    why: str
    seconds: float
    evidence: list[CheckEvidence] = []  # if it passed; at most 50 ids of each check's target


class Opined(Event, frozen=True, tag="opined", kw_only=True):
    """A second opinion on the proven candidate: `challenge`, `review`, or an extension."""

    step: str
    title: str
    accepted: bool
    reasons: list[str]


class Asked(Event, frozen=True, tag="asked", kw_only=True):
    """A reviewer is asked; the repair waits for the reply."""

    about: str  # "round" or "publish"
    question: str
    diff: str


class Answered(Event, frozen=True, tag="answered", kw_only=True):
    about: str
    approved: bool
    why: str


class Reflected(Event, frozen=True, tag="reflected", kw_only=True):
    lesson: str
    lessons: list[str]
    title: str = ""  # of the candidate that failed, if the lesson comes from a single one
    result: str = ""  # of that candidate, as in `agent.contract.outcome.Iteration`
    advice: str = ""  # the lesson's last sentence


class RungSpent(Event, frozen=True, tag="rung_spent", kw_only=True):
    rung: str
    seconds: float
    tried: int
    passed: int
    tokens: int
    cost: float | None
    note: str


class ModelCalled(Event, frozen=True, tag="model_called", kw_only=True):
    model: str
    role: str
    prompt: str = ""  # name and version of its template: "repair/2"
    tokens_in: int
    tokens_out: int
    seconds: float
    cost: float | None
    error: str = ""


class SandboxOpened(Event, frozen=True, tag="sandbox_opened", kw_only=True):
    """A sandbox was opened, or `error` says why not."""

    sandbox: str  # its kind: "local", "docker", "e2b", "process"
    seconds: float
    error: str = ""


class Degraded(Event, frozen=True, tag="degraded", kw_only=True):
    """A step fell back to something weaker."""

    step: str
    why: str


class Ended(Event, frozen=True, tag="ended", kw_only=True):
    outcome: str
    reason: str
    next_step: str


AnyEvent = (
    StepStarted
    | StepDone
    | Reproduced
    | Probed
    | Compared
    | Localized
    | Remembered
    | CulpritFound
    | Diagnosed
    | Proposed
    | Guarded
    | Verified
    | Selected
    | Proven
    | Opined
    | Asked
    | Answered
    | Reflected
    | RungSpent
    | ModelCalled
    | SandboxOpened
    | Degraded
    | Ended
)

Emit = Callable[[AnyEvent], Awaitable[None]]
