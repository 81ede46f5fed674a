"""The engine's result: a repair with its proof, or the reason why there is none, with the log. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from agent.contract.budget import RungCost, Usage
from agent.contract.last_good import Culprit
from agent.contract.proposal import Diagnosis, Edits, is_model
from agent.contract.verdicts import CheckRun, Conditions, Oracle, VerdictId


class Outcome(StrEnum):
    """How an attempt ended."""

    HEALED = "healed"
    NOT_REPRODUCED = "not_reproduced"
    FLAKY = "flaky"
    INFRASTRUCTURE = "infrastructure"
    NEEDS_SERVICES = "needs_services"
    NEEDS_SECRET = "needs_secret"  # noqa: S105 - an outcome's name
    NEEDS_TEST_CHANGE = "needs_test_change"
    SUPERSEDED = "superseded"
    NOTHING_FAILED = "nothing_failed"
    OUT_OF_BUDGET = "out_of_budget"
    GAVE_UP = "gave_up"
    REFUSED = "refused"
    CANCELLED = "cancelled"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class ConfirmedFailure:
    """A failure that was reproduced. `base` is the first run of each check."""

    oracle: Oracle
    base: tuple[CheckRun, ...]
    notes: tuple[str, ...] = ()

    @property
    def failing(self) -> tuple[str, ...]:
        """Ids of the verdicts that must pass, sorted."""
        return tuple(sorted(id_ for ids in self.oracle.must_turn.values() for id_ in ids))


@dataclass(frozen=True, slots=True)
class CheckEvidence:
    """One check's part of the proof. Counts are verdicts; seconds are wall time."""

    check: str
    command: str
    target: tuple[VerdictId, ...]  # verdicts that had to pass
    base_red: int
    base_green: int
    base_seconds: float
    with_red: int
    with_green: int
    with_seconds: float
    without_red: int  # target verdicts that fail in a fresh run without the patch
    without_seconds: float
    afterwards: str = ""  # how the command fails after its tests, with the patch and without: "exit code 2: no network"


@dataclass(frozen=True, slots=True)
class Evidence:
    """Red at the base (twice), green with the patch, red again without it."""

    checks: tuple[CheckEvidence, ...]
    environment: str  # "Python 3.11.7, sandbox local, no network"
    approximated: tuple[str, ...] = ()  # differences from CI, a clause or sentence each
    merged_into: str = ""  # the base branch, if only the merge with it fails: then all runs were made on that merge


@dataclass(frozen=True, slots=True)
class Iteration:
    """One round of propose, verify and reflect."""

    number: int
    rung: str
    title: str
    diff: str
    result: str  # "verified", "2 of 3 failing tests still fail", "refused: edits a test"
    lesson: str = ""


@dataclass(frozen=True, slots=True)
class ReflectionLog:
    """The history of an attempt, for people."""

    diagnosis: Diagnosis | None
    iterations: tuple[Iteration, ...]
    lessons: tuple[str, ...]  # at most five
    rungs: tuple[RungCost, ...]
    notes: tuple[str, ...] = ()  # degraded steps, limits of the sandbox, skipped parts

    @property
    def outage(self) -> str:
        """Why the last model could not be asked, a clause; "" if it could, or if no model was needed."""
        asked = [cost for cost in self.rungs if is_model(cost.rung) and (cost.usage.calls or cost.is_outage)]
        return asked[-1].note if asked and asked[-1].is_outage else ""


VERY_SURE = 0.9  # the least confidence of a repair that texts call "very sure"
ALL_BUT_EXIT = "its tests pass, but the command still exits with"  # begins a result too
WEIGHED = "weigh objects"  # begins the result of a change that passed everything, and is only not sure enough
UNDECIDED = "the tests do not decide it"  # begins a doubt with which no text does, whatever the confidence


@dataclass(frozen=True, slots=True)
class Repair:
    edits: Edits
    title: str
    diagnosis: Diagnosis
    evidence: Evidence
    confidence: float  # 0..1
    usage: Usage
    log: ReflectionLog
    alternatives: int = 0  # other candidates that passed the failing tests, and are not known to behave the same
    doubts: tuple[str, ...] = ()  # why the confidence is not higher, a clause each
    choices: tuple[str, ...] = ()  # titles of such candidates
    signals: Mapping[str, float] = field(default_factory=dict)  # from which the confidence is computed


Chance = Literal["order", "time", "randomness", "network", "concurrency", "unknown"]
"""What a flaky failure depends on."""


@dataclass(frozen=True, slots=True)
class Flakiness:
    """What reruns of the same code showed about a flaky failure."""

    ids: tuple[VerdictId, ...]
    red: int  # runs in which one of the ids failed
    runs: int
    cause: Chance  # suspected
    evidence: tuple[str, ...] = ()  # sentences
    under: tuple[Conditions, ...] = ()  # conditions under which it failed every time, if any


@dataclass(frozen=True, slots=True)
class NoRepair:
    outcome: Outcome
    reason: str  # one sentence
    next_step: str  # one sentence: what the user can do
    usage: Usage
    log: ReflectionLog
    flakiness: Flakiness | None = None
    culprit: Culprit | None = None  # what broke the tests, if the last good commit is known
    suspects: tuple[Repair, ...] = ()  # verified changes that are too unsure to be published, the likeliest first
    partial: Iteration | None = None  # if nothing else is known: the failed change with which the most failing tests pass
