"""What one step comes to, as a value: whoever walks acts on it, whoever reads the step makes it. Knows neither."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from agent.ci.job.renderer import Frame
from agent.ci.workflows.model import Action, Step
from agent.contract.verdicts import Check
from sandbox.base import Packages


@dataclass(frozen=True, slots=True)
class Here:
    """The step that the walk has come to."""

    step: Step
    frame: Frame  # with the step's own variables
    number: str  # "3", or "3.1" within an action of the repository
    title: str  # as GitHub shows it
    is_target: bool  # CI tells that it fails


@dataclass(frozen=True, slots=True)
class Gains:
    """What reading a step adds to what must be there for the job, and to what is said of it."""

    packages: Packages = field(default_factory=Packages)
    python: str | None = None  # the version that counts from here on
    notes: tuple[str, ...] = ()
    runtime: tuple[str, str] | None = None  # of another language: its name, and the version that counts from here on


@dataclass(frozen=True, slots=True)
class Prepares:
    """A known action that sets something up, or does nothing here."""

    does: Literal["sets up", "nothing"]
    why: str
    outputs: Mapping[str, str]
    gains: Gains


@dataclass(frozen=True, slots=True)
class Installs:
    """Shell text of which nothing is left but what the prepared sandbox has."""

    text: str
    gains: Gains


@dataclass(frozen=True, slots=True)
class Runs:
    """Shell text that does something."""

    text: str  # as it stands in the workflow, filled in
    check: Check  # what is left of it without installs
    tool: str  # the program that tells how it went
    gains: Gains


@dataclass(frozen=True, slots=True)
class Opens:
    """An action of the repository itself: its own steps."""

    action: Action
    frame: Frame  # of its steps
    folder: str


Meant = Prepares | Installs | Runs | Opens
