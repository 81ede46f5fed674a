"""What goes into the engine and what comes out of it: the vocabulary of a repair, as values.

This room knows nothing of GitHub, the database, Redis or settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Literal, NewType

from sandbox.base import Packages, Sandbox

VerdictId = NewType("VerdictId", str)
"""A test node id ("tests/test_a.py::test_b[1]"), a lint finding ("pkg/a.py: F401 `os` …"), a step ("exit")."""


class Outcome(StrEnum):
    """How an ended attempt ended: the closed list."""

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


class Verdict(StrEnum):
    PASSED = "passed"
    FAILED = "failed"  # the check said no
    ERROR = "error"  # it could not be asked: setup, collection, import
    SKIPPED = "skipped"  # skipped, or failed as the test itself expects

    @property
    def red(self) -> bool:
        return self in (Verdict.FAILED, Verdict.ERROR)


Reader = Literal["pytest", "unittest", "javascript", "go", "rust", "java", "findings", "exit"]
"""Turns a command's run into verdicts: `findings` reads `path:line:col: CODE message` lines of linters and type checkers,
`javascript` listens to Node's runners of tests, `go`, `rust` and `java` read what theirs print."""


@dataclass(frozen=True, slots=True)
class Step:
    """Shell text of a job that a check needs to have run before it, in the same workspace."""

    name: str
    command: str
    shell: str = "bash"  # "bash", "sh", "python", or a template as GitHub has it: "bash -e {0}"
    cwd: str = "."
    env: Mapping[str, str] = field(default_factory=dict)  # its own: over what earlier steps exported
    timeout: float = 600.0  # seconds, within those of the check
    outer: Mapping[str, str] = field(default_factory=dict)  # of the workflow and the job: under what they exported
    may_fail: bool = False  # `continue-on-error`: what comes after it runs also where it is red


@dataclass(frozen=True, slots=True)
class Service:
    """A server that a check needs beside it, on a port of localhost."""

    kind: Literal["postgresql", "mysql", "redis"]
    port: int
    name: str = ""  # as the workflow has it
    image: str = ""  # "postgres:16-alpine": the wanted version, for people
    env: Mapping[str, str] = field(default_factory=dict)  # of its image: `POSTGRES_PASSWORD`, …
    host: str = "localhost"  # by which the steps reach it: its name in a job with a container


@dataclass(frozen=True, slots=True)
class Conditions:
    """What one run of tests does not leave to chance; what is None is left to it, or to the machine."""

    shuffle: int | None = None  # names an order of the tests (`agent/guest/ordering.py`); None: as they are collected
    hash_seed: int | None = None  # PYTHONHASHSEED
    seed: int | None = None  # of `random` before each test, and of pytest-randomly
    clock: float | None = None  # when the tests begin, in seconds since 1970
    timezone: str = ""  # TZ; "": the machine's

    @property
    def env(self) -> dict[str, str]:
        hashes = {} if self.hash_seed is None else {"PYTHONHASHSEED": str(self.hash_seed)}
        return hashes | ({"TZ": self.timezone} if self.timezone else {})


@dataclass(frozen=True, slots=True)
class Check:
    """A command and the reader that turns its run into verdicts.

    `before` and `services` come first in every run, in its own workspace: a change to what they build is seen. With several
    `conditions` one run is as many as there are, each in its own processes, and what is red in any of them is red.
    """

    name: str  # "tests", "lint", …: unique in an oracle
    command: str  # shell text, as the workflow or the user wrote it
    reader: Reader
    timeout: float = 600.0  # seconds for one run, with what comes before
    cwd: str = "."
    env: Mapping[str, str] = field(default_factory=dict)  # its own: over what the steps before it exported
    source: str = "detected"  # where it came from, for people: "workflow ci.yml, job tests, step 3", "configuration", …
    shell: str = "bash"
    before: tuple[Step, ...] = ()
    services: tuple[Service, ...] = ()
    conditions: tuple[Conditions, ...] = ()
    outer: Mapping[str, str] = field(default_factory=dict)  # of the workflow and the job: under what the steps exported

    @property
    def needs_company(self) -> bool:
        """Whether its red ones may be red only among the other tests, in a certain order."""
        return any(each.shuffle is not None for each in self.conditions)

    @property
    def runs_tests(self) -> bool:
        return self.reader not in ("findings", "exit")

    @property
    def is_python(self) -> bool:
        """Its tests can be traced, searched and played with from inside."""
        return self.reader in ("pytest", "unittest")

    @property
    def commands(self) -> str:
        """All shell text of a run."""
        return "\n".join([*(step.command for step in self.before), self.command])


@dataclass(frozen=True, slots=True)
class Frame:
    """One line of a traceback that lies inside the repository."""

    path: str
    line: int
    function: str = ""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why one verdict is red. Texts come from hostile code: cleaned of control characters and bounded, never trusted."""

    id: VerdictId
    message: str  # one line: "AssertionError: assert 3 == 4"
    details: str = ""  # traceback or finding, bounded
    frames: tuple[Frame, ...] = ()  # outermost first


@dataclass(frozen=True, slots=True)
class CheckRun:
    """One run of one check, observed through our own runner's channel (never through a file that code under test writes)."""

    check: str
    ending: Literal["finished", "timeout", "crashed", "out_of_memory"]
    verdicts: Mapping[VerdictId, Verdict]
    failures: tuple[Failure, ...]
    seconds: float
    durations: Mapping[VerdictId, float] = field(default_factory=dict)  # seconds a verdict took, where known
    exit_code: int | None = None
    output: str = ""  # bounded tail of what it printed, cleaned
    # What code of the repository did to what runs its tests: `PATH: WHAT`, PATH "" where unknown. No offence at the base.
    marks: frozenset[str] = frozenset()
    # What the steps before it did to what decides: `KIND WHAT (DIGEST)`, see `agent/guest/deciding.py`.
    prepared: frozenset[str] = frozenset()
    told_all: bool = False  # its tests came to their end: whatever was done is among the marks
    stopped_at: str = ""  # the step before it that did not pass, so that it never began

    @property
    def red(self) -> frozenset[VerdictId]:
        return frozenset(i for i, v in self.verdicts.items() if v.red)

    @property
    def green(self) -> frozenset[VerdictId]:
        return frozenset(i for i, v in self.verdicts.items() if v is Verdict.PASSED)


@dataclass(frozen=True, slots=True)
class Oracle:
    """What decides. Keys of the sets are per check, by its name."""

    checks: tuple[Check, ...]
    must_turn: Mapping[str, frozenset[VerdictId]]  # red at the base
    must_stay: Mapping[str, frozenset[VerdictId]]  # green there

    @property
    def is_red(self) -> bool:
        return any(self.must_turn.values())


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
class CheckEvidence:
    """One check's part of the proof. Counts are of verdicts; seconds are wall time."""

    check: str
    command: str
    target: tuple[VerdictId, ...]  # what had to turn green
    base_red: int
    base_green: int
    base_seconds: float
    with_red: int
    with_green: int
    with_seconds: float
    without_red: int  # of the target, in a fresh process without the patch
    without_seconds: float


@dataclass(frozen=True, slots=True)
class Evidence:
    """Red at the base (twice), green with the patch, red again without it."""

    checks: tuple[CheckEvidence, ...]
    environment: str  # "Python 3.11.7, sandbox local, no network"
    approximated: tuple[str, ...] = ()  # what was not as in CI, a clause or sentence each


@dataclass(frozen=True, slots=True)
class Usage:
    """What was spent. `cost` is what is known of it, in US dollars; None where the price of no call is known."""

    tokens_in: int = 0
    tokens_out: int = 0
    calls: int = 0
    cost: float | None = 0.0
    unpriced: int = 0  # calls whose price is not known: they come on top of `cost`

    def __post_init__(self) -> None:
        if self.cost is None and not self.unpriced:
            object.__setattr__(self, "unpriced", self.calls)

    def __add__(self, other: Usage) -> Usage:
        known = [usage.cost for usage in (self, other) if usage.cost is not None and usage.calls > usage.unpriced]
        unpriced = self.unpriced + other.unpriced
        return Usage(
            self.tokens_in + other.tokens_in,
            self.tokens_out + other.tokens_out,
            self.calls + other.calls,
            sum(known) if known or not unpriced else None,
            unpriced,
        )


@dataclass(frozen=True, slots=True)
class RungCost:
    """What one rung cost and brought, for the log."""

    rung: str
    seconds: float
    tried: int  # candidates that were evaluated, also those that never left the rung
    passed: int  # candidates that it handed on as plausible
    usage: Usage
    note: str = ""


@dataclass(frozen=True, slots=True)
class Iteration:
    """One round of propose, verify, reflect, as the log tells it."""

    number: int
    rung: str
    title: str
    diff: str
    result: str  # "verified", "2 of 3 failing tests still fail", "refused: edits a test"
    lesson: str = ""


@dataclass(frozen=True, slots=True)
class ReflectionLog:
    """The readable history of an attempt."""

    diagnosis: Diagnosis | None
    iterations: tuple[Iteration, ...]
    lessons: tuple[str, ...]  # at most five
    rungs: tuple[RungCost, ...]
    notes: tuple[str, ...] = ()  # degraded steps, shortcomings of the sandbox, what was skipped and why


@dataclass(frozen=True, slots=True)
class Repair:
    edits: Edits
    title: str
    diagnosis: Diagnosis
    evidence: Evidence
    confidence: float  # 0..1
    usage: Usage
    log: ReflectionLog
    alternatives: int = 0  # other candidates that passed the same failing tests
    doubts: tuple[str, ...] = ()  # why the confidence is not higher, a clause each


Chance = Literal["order", "time", "randomness", "network", "concurrency", "unknown"]
"""What a failure that comes and goes depends on."""


@dataclass(frozen=True, slots=True)
class Flakiness:
    """What reruns of the same code showed of a failure that comes and goes."""

    ids: tuple[VerdictId, ...]
    red: int  # runs of `runs` in which one of them was red
    runs: int
    cause: Chance  # suspected
    evidence: tuple[str, ...] = ()  # sentences
    under: tuple[Conditions, ...] = ()  # in which it was red every time it was tried, if any


@dataclass(frozen=True, slots=True)
class NoRepair:
    outcome: Outcome
    reason: str  # one sentence for the person who reads it
    next_step: str  # what that person can do
    usage: Usage
    log: ReflectionLog
    flakiness: Flakiness | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """What a person is asked before the repair goes on."""

    about: Literal["round", "publish"]
    text: str  # one sentence
    diff: str = ""  # of what would be published


@dataclass(frozen=True, slots=True)
class Reply:
    """A person's word on the question."""

    approved: bool
    why: str = ""  # in their own words; with a rejection it becomes feedback for the next round
    to: str = ""  # the `Waiting.asking` that it answers; "" answers whatever is asked

    def answers(self, waiting: Waiting) -> bool:
        """Was it given to this asking? One that a killed worker has used already must not answer the next question."""
        return self.to in ("", waiting.asking)


@dataclass(frozen=True, slots=True)
class Waiting:
    """Neither healed nor ended: the repair sleeps in its checkpoints until a person replies."""

    question: Question
    usage: Usage
    asking: str = ""  # names this one time of asking; the same while it waits


@dataclass(frozen=True, slots=True)
class Budget:
    """What an attempt may spend; checked in one place (`agent/budget.py`)."""

    iterations: int = 8
    tokens: int = 200_000
    cost: float = 2.0  # US dollars
    seconds: float = 1800.0
    reserve: float = 60.0  # seconds kept back to publish what is found


Autonomy = Literal["full", "review_publish", "review_repairs", "review_all"]
"""When a person is asked: never; before anything is published; before each further round too; before the first proposal too."""


@dataclass(frozen=True, slots=True)
class Policy:
    """What a repair may do in this repository; a repository's own configuration can only narrow it."""

    allow_test_edits: bool = False
    allow_snapshots: bool = False  # the tools may write recorded outputs of tests anew
    protected: tuple[str, ...] = ()  # further globs that are never edited
    max_files: int = 10
    max_changed_lines: int = 400
    rungs: tuple[str, ...] = ("tools", "patterns", "model")
    autonomy: Autonomy = "full"
    guidance: str = ""  # what the repository tells whoever repairs it: shown to models as data, never as instructions


@dataclass(frozen=True, slots=True)
class Task:
    """One commit to heal: its sandbox is unpacked and its dependencies are installed."""

    id: str  # names the thread of checkpoints; the attempt's id
    sandbox: Sandbox
    checks: tuple[Check, ...]  # what failed in CI, or what was detected
    policy: Policy = Policy()
    budget: Budget = Budget()
    hints: tuple[str, ...] = ()  # excerpts of the failing job's log, a person's words: quoted as data
    environment: str = ""  # for the evidence
    approximated: tuple[str, ...] = ()  # the same: what is not as in CI
    packages: Packages = field(default_factory=Packages)  # what was installed; anew where a change touches what names it
    told: tuple[str, ...] = ()  # ids of tests that CI saw fail, as its log names them; hints, never verdicts
    seed: int | None = None  # of the run in CI, as its log tells it
    clock: datetime | None = None  # when that run was
    heals_flakiness: bool = False  # a person asked to repair also what comes and goes
