"""What is replayed, what CI reports about its steps, and the result of traversing them. Plain values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal, NamedTuple

from agent.ci.expressions import Unknown, Value
from agent.ci.job.contexts import Run
from agent.ci.job.services import JobServices
from agent.ci.workflows.document import WorkflowProblem
from agent.ci.workflows.model import Job, Workflow
from agent.ci.workflows.shown_names import align, find_step
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
    path: str = ""  # of the workflow file
    run: Run = field(default_factory=Run)
    matrix: Mapping[str, Value] = field(default_factory=dict)
    inputs: Mapping[str, Value] = field(default_factory=dict)  # inputs of a called workflow
    wanted: JobServices = field(default_factory=JobServices)  # its services
    failed_step: str | None = None  # its name as GitHub shows it; None: unknown
    conclusions: tuple[tuple[str, str], ...] = ()  # of the steps in CI: name that GitHub shows, conclusion
    needs: str = ""  # a value that its services need and only GitHub has
    notes: tuple[str, ...] = ()  # guesses, and differences from CI
    image: str | None = None  # image of its container
    python: str | None = None  # Python version of that image
    is_windows: bool = False  # whether the job runs on Windows in CI
    is_red: bool = False  # whether CI reports that it failed


class Target(Enum):
    """What a traversal looks for."""

    NAMED = "the step that CI names"
    WITHIN = "the first failing step of the action that CI names"
    TESTS = "the first step with tests, because the step that CI names only installs packages"
    RED = "the first failing step, because CI names none"

    @property
    def is_any_red(self) -> bool:
        """Whether any step could be the failing one, even one that is left out."""
        return self in (Target.WITHIN, Target.RED)


@dataclass(frozen=True, slots=True)
class ReportedSteps:
    """What CI reports about the job's own steps, by their numbers."""

    conclusions: Mapping[int, str] = field(default_factory=dict)
    failing: int | None = None
    note: str = ""  # why the name of the failing step matches nothing

    def runs(self, number: int) -> bool | None:
        """Whether the step ran; None if CI does not say."""
        return self.conclusions[number] != "skipped" if number in self.conclusions else None


def match_steps(leg: Leg, render: Callable[[str], str | Unknown]) -> ReportedSteps:
    """Match the steps that CI shows with those of the file; `render` evaluates a name (and may raise `ExpressionError`)."""
    names = [name for name, _ in leg.conclusions]
    conclusions = {number: leg.conclusions[at][1] for number, at in align(leg.job, names, render).items()}
    if leg.failed_step is None:
        return ReportedSteps(conclusions)
    red = next((number for number, conclusion in conclusions.items() if conclusion in ("failure", "timed_out")), None)
    if red is not None:
        return ReportedSteps(conclusions, red)
    found = find_step(leg.job, leg.failed_step, render)
    if isinstance(found, WorkflowProblem):
        return ReportedSteps(conclusions, note=f"{leg.source}: {str(found).rstrip('.')}; each step is tried instead")
    return ReportedSteps(conclusions, found.number)


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """The outcome of one step, for people. `number` is "3", or "3.1" within an action of the repository."""

    number: str
    title: str
    does: Does
    detail: str = ""  # its command, or why it does not run


class Performed(NamedTuple):
    """The run of a step, and what it passes to later steps."""

    run: CheckRun
    outputs: Mapping[str, Value]
    env: Mapping[str, str]

    @property
    def is_red(self) -> bool:
        return self.run.ending != "finished" or self.run.exit_code != 0


class RunRequest(NamedTuple):
    """The next step to run, in the workspace of the earlier steps; if `is_fresh`, together with them in a new workspace."""

    check: Check
    is_fresh: bool


@dataclass(frozen=True, slots=True)
class FailingStep:
    """The step that shows the failure, with the earlier steps that it needs."""

    check: Check
    tool: str  # the program that the check runs
    seen: CheckRun | None = None  # its run in the replay, if it ran


@dataclass(frozen=True, slots=True)
class RunRequired:
    """Only running the steps can show `what`."""

    what: str  # for people, after "to see"


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
    checks: tuple[Check, ...] = ()  # of the steps that were reached
    absent_program: str = ""  # a program that a step called in vain

    @property
    def check(self) -> Check | None:
        return self.end.check if isinstance(self.end, FailingStep) else None

    @property
    def ending(self) -> Ending | None:
        return self.end if isinstance(self.end, Ending) else None

    @property
    def asks(self) -> str:
        return self.end.what if isinstance(self.end, RunRequired) else ""
