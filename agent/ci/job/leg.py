"""What is replayed, and what a walk through its steps gives: values that readers, players and pages share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol

from agent.ci.expressions import Value
from agent.ci.job.contexts import Run
from agent.ci.job.services import Wanted
from agent.ci.workflows.model import Job, Workflow
from agent.contract.verdicts import Check, CheckRun
from agent.report.endings import Ending
from sandbox.base import Packages

Does = Literal["runs", "fails", "installs", "sets up", "nothing", "left out", "skipped", "not reached"]


@dataclass(frozen=True, slots=True)
class Leg:
    """One run of one job: what is to be replayed."""

    workflow: Workflow
    job: Job
    source: str  # for people: "workflow ci.yml, job tests (3.12)"
    run: Run = field(default_factory=Run)
    matrix: Mapping[str, Value] = field(default_factory=dict)
    inputs: Mapping[str, Value] = field(default_factory=dict)  # of a workflow that is called
    wanted: Wanted = field(default_factory=Wanted)  # its services
    failed_step: str | None = None  # as GitHub shows it; None: it is to be found
    conclusions: tuple[tuple[str, str], ...] = ()  # of the steps in CI: the names that GitHub shows, in their order
    needs: str = ""  # what its services ask for and only GitHub has
    notes: tuple[str, ...] = ()  # what was guessed of it, and what is different of where it runs
    image: str | None = None  # that it runs in; None where it has none
    python: str | None = None  # of that image
    is_windows: bool = False  # in CI


@dataclass(frozen=True, slots=True)
class Told:
    """What becomes of one step, for people. `number` is "3", or "3.1" within an action of the repository."""

    number: str
    title: str
    does: Does
    detail: str = ""  # its command, or why it is not run


class Performed(NamedTuple):
    """What running a step gave, and what it left for those after it."""

    run: CheckRun
    outputs: Mapping[str, Value]
    env: Mapping[str, str]

    @property
    def is_red(self) -> bool:
        return self.run.ending != "finished" or self.run.exit_code != 0


class Perform(Protocol):
    """Runs one step after the others, in one workspace; `anew`: together with those before it, in a fresh one.

    Raises `SandboxError`.
    """

    async def __call__(self, check: Check, *, anew: bool) -> Performed: ...


@dataclass(frozen=True, slots=True)
class Found:
    """The step that shows the failure, with the steps before it that it cannot do without."""

    check: Check
    tool: str  # what the check's command calls
    seen: CheckRun | None = None  # red, where it was run


@dataclass(frozen=True, slots=True)
class Asked:
    """Only running the steps can tell `what`."""

    what: str  # for people, behind "to see"


@dataclass(frozen=True, slots=True)
class Nothing:
    """No step of the job tests or checks anything."""


End = Found | Asked | Ending | Nothing


@dataclass(frozen=True, slots=True)
class Walked:
    """Where the walk led, and what was seen on the way."""

    end: End
    told: tuple[Told, ...]
    packages: Packages
    notes: tuple[str, ...] = ()
    runtimes: Mapping[str, str] = field(default_factory=dict)  # of other languages: name → version that is asked for

    @property
    def check(self) -> Check | None:
        return self.end.check if isinstance(self.end, Found) else None

    @property
    def ending(self) -> Ending | None:
        return self.end if isinstance(self.end, Ending) else None

    @property
    def asks(self) -> str:
        return self.end.what if isinstance(self.end, Asked) else ""
