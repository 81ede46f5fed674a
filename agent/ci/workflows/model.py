"""The contents of a workflow or an action file, as far as a replay needs them.

Texts stay templates: `${{ … }}` is not evaluated. Numbers and booleans in place of text are converted as GitHub does; if any
type is allowed (matrix values, inputs of a called workflow), the value is kept as read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from agent.ci.workflows.document import Value, Word

StringMap = Mapping[str, str]
Variables = StringMap | str  # a text is an expression that gives them all, as `${{ matrix.env }}`


@dataclass(frozen=True, slots=True)
class RunDefaults:
    """`defaults.run`: of a workflow, or of a job."""

    shell: str | None = None
    working_directory: str | None = None


@dataclass(frozen=True, slots=True)
class WorkflowStep:
    """One step: `run` or `uses` is set, the other is None."""

    number: int  # from 1, as written
    id: str | None = None
    name: str | None = None
    condition: str | None = None  # with or without `${{ }}`, as written
    run: str | None = None
    uses: str | None = None
    inputs: StringMap = field(default_factory=dict)  # `with`
    env: Variables = field(default_factory=dict)
    shell: str | None = None
    working_directory: str | None = None
    continue_on_error: bool | str = False
    timeout_minutes: float | str | None = None


@dataclass(frozen=True, slots=True)
class Container:
    """The image in which a job's steps run, or the image of a service; credentials are not kept."""

    image: str
    env: StringMap = field(default_factory=dict)
    ports: tuple[str, ...] | str = ()
    volumes: tuple[str, ...] | str = ()
    options: str = ""
    entrypoint: str = ""  # of a service
    command: str = ""


@dataclass(frozen=True, slots=True)
class Job:
    """One job: either `steps`, or the call of a reusable workflow (`uses`, `inputs`)."""

    id: str
    name: str | None = None
    needs: tuple[str, ...] = ()
    env: Variables = field(default_factory=dict)
    defaults: RunDefaults = RunDefaults()
    strategy: str | None = None  # the template of a whole strategy
    matrix: Value = None  # as read: a mapping, a template of a whole matrix, or None
    container: Container | None = None
    services: Mapping[str, Container] = field(default_factory=dict)  # by their ids
    steps: tuple[WorkflowStep, ...] = ()
    labels: tuple[str, ...] = ()  # `runs-on`
    uses: str | None = None
    inputs: Mapping[str, Word] = field(default_factory=dict)  # `with` of a call
    line: int = 0


@dataclass(frozen=True, slots=True)
class Input:
    """An input of a called workflow or of an action. `type`: string, boolean, number."""

    id: str
    type: str = "string"
    required: bool = False
    default: Word = None


@dataclass(frozen=True, slots=True)
class Workflow:
    jobs: tuple[Job, ...]
    events: tuple[str, ...]
    name: str | None = None
    env: Variables = field(default_factory=dict)
    defaults: RunDefaults = RunDefaults()
    call_inputs: tuple[Input, ...] = ()
    only_tags: bool = False  # whether only pushed tags start it, not pushed branches

    @property
    def runs_on_commits(self) -> bool:
        """Whether a push to some branch, or a pull request, starts it."""
        return "pull_request" in self.events or ("push" in self.events and not self.only_tags)

    def job(self, job_id: str) -> Job | None:
        return next((job for job in self.jobs if job.id == job_id), None)


@dataclass(frozen=True, slots=True)
class Action:
    """An `action.yml`. Only a composite one has steps; `using` says what it is ("composite", "node20", "docker")."""

    using: str
    inputs: tuple[Input, ...] = ()
    outputs: StringMap = field(default_factory=dict)
    steps: tuple[WorkflowStep, ...] = ()
