"""Checks, their runs and verdicts, and the oracle that decides. Values only; knows no sandbox and no repair."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, NewType

VerdictId = NewType("VerdictId", str)
"""A test node id ("tests/test_a.py::test_b[1]"), a lint finding ("pkg/a.py: F401 `os` …"), a step ("exit")."""

EXIT = VerdictId("exit")  # the whole command, if no single verdict explains the failure


class Verdict(StrEnum):
    PASSED = "passed"
    FAILED = "failed"  # it ran and failed
    ERROR = "error"  # it could not run: setup, collection, import
    SKIPPED = "skipped"  # skipped, or an expected failure

    @property
    def red(self) -> bool:
        return self in (Verdict.FAILED, Verdict.ERROR)


Reader = Literal["pytest", "unittest", "javascript", "go", "rust", "java", "findings", "exit"]
"""How a command's run becomes verdicts: `findings` reads the `path:line:col: CODE message` lines of linters and type checkers,
`javascript` observes Node's test runners, `go`, `rust` and `java` read the output of theirs."""


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a job that runs before a check, in the same workspace."""

    name: str
    command: str
    shell: str = "bash"  # "bash", "sh", "python", or a template as on GitHub: "bash -e {0}"
    cwd: str = "."
    env: Mapping[str, str] = field(default_factory=dict)  # the step's own variables: they override what earlier steps exported
    timeout: float = 600.0  # seconds; counts towards the check's timeout
    outer: Mapping[str, str] = field(default_factory=dict)  # variables of the workflow and the job: exports override them
    may_fail: bool = False  # `continue-on-error`: later steps run even if it fails


@dataclass(frozen=True, slots=True)
class Service:
    """A server that a check needs, on a port of localhost."""

    kind: Literal["postgresql", "mysql", "redis"]
    port: int
    name: str = ""  # its name in the workflow
    image: str = ""  # "postgres:16-alpine": the requested version, for people
    env: Mapping[str, str] = field(default_factory=dict)  # the image's variables: `POSTGRES_PASSWORD`, …
    host: str = "localhost"  # its host name for the steps: the service's name in a job with a container


@dataclass(frozen=True, slots=True)
class Conditions:
    """What is fixed in one run of tests; None means that chance or the machine decides."""

    shuffle: int | None = None  # seed of the test order (`agent/guest/observe/conditions.py`); None: as collected
    hash_seed: int | None = None  # PYTHONHASHSEED
    seed: int | None = None  # for `random` before each test, and for pytest-randomly
    clock: float | None = None  # start of the tests, in seconds since 1970
    timezone: str = ""  # TZ; "": the machine's time zone

    @property
    def env(self) -> dict[str, str]:
        hashes = {} if self.hash_seed is None else {"PYTHONHASHSEED": str(self.hash_seed)}
        return hashes | ({"TZ": self.timezone} if self.timezone else {})


@dataclass(frozen=True, slots=True)
class Check:
    """A command and the reader that turns its run into verdicts.

    Every run starts with `before` and `services`, in its own workspace. With several `conditions`, a run is a series of runs,
    one for each condition, in separate processes; a verdict that is red in any of them is red.
    """

    name: str  # "tests", "lint", …: unique in an oracle
    command: str  # shell text, as the workflow or the user wrote it
    reader: Reader
    timeout: float = 600.0  # seconds for one run, including `before`
    cwd: str = "."
    env: Mapping[str, str] = field(default_factory=dict)  # the check's own variables: they override what `before` exported
    source: str = "detected"  # its origin, for people: "workflow ci.yml, job tests, step 3", "configuration", …
    shell: str = "bash"
    before: tuple[Step, ...] = ()
    services: tuple[Service, ...] = ()
    conditions: tuple[Conditions, ...] = ()
    outer: Mapping[str, str] = field(default_factory=dict)  # variables of the workflow and the job: exports override them
    # What the sandbox lacks: modules, and folders ("vendor/data/"). A test that fails only for want of it counts as skipped.
    absent: tuple[str, ...] = ()

    @property
    def needs_company(self) -> bool:
        """Can its failures depend on tests that ran before them?"""
        return any(each.shuffle is not None for each in self.conditions)

    @property
    def runs_tests(self) -> bool:
        return self.reader not in ("findings", "exit")

    @property
    def is_python(self) -> bool:
        """Can its tests be traced and searched from inside the process?"""
        return self.reader in ("pytest", "unittest")

    @property
    def commands(self) -> str:
        """The shell text of all commands of a run."""
        return "\n".join([*(step.command for step in self.before), self.command])


@dataclass(frozen=True, slots=True)
class Frame:
    """One line of a traceback inside the repository."""

    path: str
    line: int
    function: str = ""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why one verdict is red. Its texts come from hostile code: cleaned and bounded, never trusted."""

    id: VerdictId
    message: str  # one line: "AssertionError: assert 3 == 4"
    details: str = ""  # traceback or finding, bounded
    frames: tuple[Frame, ...] = ()  # outermost first


@dataclass(frozen=True, slots=True)
class CheckRun:
    """One run of one check, observed through our own runner's channel, never through files that the code under test writes."""

    check: str
    ending: Literal["finished", "timeout", "crashed", "out_of_memory"]
    verdicts: Mapping[VerdictId, Verdict]
    failures: tuple[Failure, ...]
    seconds: float
    durations: Mapping[VerdictId, float] = field(default_factory=dict)  # seconds of each verdict, if known
    exit_code: int | None = None
    output: str = ""  # the end of what it printed, bounded and cleaned
    # How the repository's code tampered with the test run: `PATH: WHAT`, PATH "" if unknown. Harmless at the base.
    marks: frozenset[str] = frozenset()
    # How the steps before it changed decisive files: `KIND WHAT (DIGEST)`, see `agent/guest/supervise/decisive_files.py`.
    prepared: frozenset[str] = frozenset()
    told_all: bool = False  # its tests ran to their end, so the marks are complete
    stopped_at: str = ""  # the earlier step that failed, so that the check never started
    hung: float = 0.0  # after a timeout: seconds that a test had been running, if one was

    @property
    def red(self) -> frozenset[VerdictId]:
        return frozenset(i for i, v in self.verdicts.items() if v.red)

    @property
    def green(self) -> frozenset[VerdictId]:
        return frozenset(i for i, v in self.verdicts.items() if v is Verdict.PASSED)


@dataclass(frozen=True, slots=True)
class Oracle:
    """The verdicts that decide, by the check's name."""

    checks: tuple[Check, ...]
    must_turn: Mapping[str, frozenset[VerdictId]]  # failing at the base
    must_stay: Mapping[str, frozenset[VerdictId]]  # passing at the base
    seen_once: bool = False  # `reproduce` ran the passing ones only once: the gate runs them again before it blames a change

    @property
    def is_red(self) -> bool:
        return any(self.must_turn.values())
