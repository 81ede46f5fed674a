"""What a check is, what one run of it says, and what of that decides, as values.

Knows no sandbox and nothing of who repairs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, NewType

VerdictId = NewType("VerdictId", str)
"""A test node id ("tests/test_a.py::test_b[1]"), a lint finding ("pkg/a.py: F401 `os` …"), a step ("exit")."""


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
