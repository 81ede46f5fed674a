"""What a step does, as a value: the readers of steps build it, the traversal acts on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from agent.ci.job.renderer import StepFrame
from agent.ci.workflows.model import Action, WorkflowStep
from agent.contract.verdicts import Check
from sandbox.base import Packages


@dataclass(frozen=True, slots=True)
class CurrentStep:
    """The step that the traversal has reached."""

    step: WorkflowStep
    frame: StepFrame  # with the step's own variables
    number: str  # "3", or "3.1" within an action of the repository
    title: str  # as GitHub shows it
    is_target: bool  # CI reports that it failed


@dataclass(frozen=True, slots=True)
class Additions:
    """What reading a step adds to the requirements of the job and to its notes."""

    packages: Packages = field(default_factory=Packages)
    python: str | None = None  # the version from here on
    notes: tuple[str, ...] = ()
    runtime: tuple[str, str] | None = None  # another language: its name, and the version from here on


@dataclass(frozen=True, slots=True)
class SetupStep:
    """A known action that sets something up, or does nothing here."""

    does: Literal["sets up", "nothing"]
    why: str
    outputs: Mapping[str, str]
    additions: Additions


@dataclass(frozen=True, slots=True)
class InstallStep:
    """A script that only installs what the prepared sandbox already has."""

    text: str
    additions: Additions


@dataclass(frozen=True, slots=True)
class RunStep:
    """A script with a check."""

    text: str  # as in the workflow, rendered
    check: Check  # the script without its installs
    tool: str  # the program whose output decides the check
    additions: Additions


@dataclass(frozen=True, slots=True)
class CompositeStep:
    """An action of the repository, with its own steps."""

    action: Action
    frame: StepFrame  # of its steps
    folder: str


StepMeaning = SetupStep | InstallStep | RunStep | CompositeStep
