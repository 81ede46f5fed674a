"""What is replayed, and the result of traversing its steps: values shared by readers, replays and pages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol

from agent.ci.expressions import Value
from agent.ci.job.contexts import Run
from agent.ci.job.services import JobServices
from agent.ci.workflows.model import Job, Workflow
from agent.contract.verdicts import Check, CheckRun
from agent.report.endings import Ending
from sandbox.base import Packages

Does = Literal["runs", "fails", "installs", "sets up", "nothing", "left out", "skipped", "not reached"]


@dataclass(frozen=True, slots=True)
class Leg:
    """One run of one job, to be replayed."""

    workflow: Workflow
    job: Job
    source: str  # for people: "workflow ci.yml, job tests (3.12)"
    run: Run = field(default_factory=Run)
    matrix: Mapping[str, Value] = field(default_factory=dict)
    inputs: Mapping[str, Value] = field(default_factory=dict)  # of a called workflow
    wanted: JobServices = field(default_factory=JobServices)  # its services
    failed_step: str | None = None  # as GitHub shows it; None: unknown
    conclusions: tuple[tuple[str, str], ...] = ()  # of the steps in CI: the names that GitHub shows, in their order
    needs: str = ""  # what its services need and only GitHub has
    notes: tuple[str, ...] = ()  # guesses, and differences from CI
    image: str | None = None  # of its container
    python: str | None = None  # of that image
    is_windows: bool = False  # in CI


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """What happens to one step, for people. `number` is "3", or "3.1" within an action of the repository."""

    number: str
    title: str
    does: Does
    detail: str = ""  # its command, or why it does not run


class Performed(NamedTuple):
    """The run of a step, and what it left for later steps."""

    run: CheckRun
    outputs: Mapping[str, Value]
    env: Mapping[str, str]

    @property
    def is_red(self) -> bool:
        return self.run.ending != "finished" or self.run.exit_code != 0


class Perform(Protocol):
    """Runs the next step in a shared workspace; with `fresh`, together with the earlier steps in a new one.

    Raises `SandboxError`.
    """

    async def __call__(self, check: Check, *, fresh: bool) -> Performed: ...


@dataclass(frozen=True, slots=True)
class FailingStep:
    """The step that shows the failure, with the earlier steps that it needs."""

    check: Check
    tool: str  # the program that the check runs
    seen: CheckRun | None = None  # the failed run, if it ran


@dataclass(frozen=True, slots=True)
class RunRequired:
    """Only running the steps can show `what`."""

    what: str  # for people, behind "to see"


@dataclass(frozen=True, slots=True)
class NoCheck:
    """No step of the job tests or checks anything."""


End = FailingStep | RunRequired | Ending | NoCheck


@dataclass(frozen=True, slots=True)
class TraversalResult:
    """Where the traversal ended, and what it recorded."""

    end: End
    steps: tuple[StepOutcome, ...]
    packages: Packages
    notes: tuple[str, ...] = ()
    runtimes: Mapping[str, str] = field(default_factory=dict)  # other languages: name → requested version

    @property
    def check(self) -> Check | None:
        return self.end.check if isinstance(self.end, FailingStep) else None

    @property
    def ending(self) -> Ending | None:
        return self.end if isinstance(self.end, Ending) else None

    @property
    def asks(self) -> str:
        return self.end.what if isinstance(self.end, RunRequired) else ""
