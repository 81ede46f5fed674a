"""What is to be healed, what preparing makes of it, and how it ends before anything ran."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.ci.project.configuration import NO_CONFIGURATION, Configuration
from agent.contract.outcome import ConfirmedFailure, NoRepair, Outcome, ReflectionLog
from agent.contract.task import Task
from agent.contract.usage import Usage
from sandbox.base import Installed

if TYPE_CHECKING:
    from agent.ci.job.selection import ChosenJob, FailedJob
    from agent.ci.plan import Plan


@dataclass(frozen=True, slots=True)
class Case:
    """What is to be healed: one commit's files, and what is known of its failure."""

    id: str  # names the thread of checkpoints
    label: str  # for people
    archive: AsyncIterator[bytes]  # gzipped tar with one top folder
    jobs: tuple[FailedJob | ChosenJob, ...] = ()
    configuration: Configuration = NO_CONFIGURATION
    command: str | None = None  # a person's own test command
    hints: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()  # what was passed over in choosing the jobs
    heals_flakiness: bool = False  # a person asked to repair also what comes and goes
    image: str | None = None  # that the sandbox was opened with, for the job that asks for it
    model: str | None = None  # LiteLLM name of the one that a person chose; None is the installation's


@dataclass(frozen=True, slots=True)
class Prepared:
    """A task whose sandbox is ready, and what was understood on the way."""

    task: Task
    plan: Plan
    installed: Installed


@dataclass(frozen=True, slots=True)
class Uninstalled:
    """The repository's own requirements cannot be installed, so nothing of it can run."""

    plan: Plan
    failure: ConfirmedFailure
    ended: NoRepair  # for callers that wanted a repair


def without_a_run(outcome: Outcome, reason: str, next_step: str, *notes: str) -> NoRepair:
    """An ending from before the graph began: nothing was tried, nothing was spent."""
    log = ReflectionLog(diagnosis=None, iterations=(), lessons=(), rungs=(), notes=notes)
    return NoRepair(outcome=outcome, reason=reason, next_step=next_step, usage=Usage(), log=log)
