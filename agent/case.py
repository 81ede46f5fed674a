"""The engine's input before preparation, the prepared result, and endings from before any run."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.ci.project.configuration import NO_CONFIGURATION, Configuration
from agent.contract.budget import Usage
from agent.contract.last_good import History, LastGood
from agent.contract.outcome import ConfirmedFailure, NoRepair, Outcome, ReflectionLog
from agent.contract.task import Task
from agent.contract.verdicts import CheckRun
from sandbox.base import Installed

if TYPE_CHECKING:
    from agent.ci.job.selection import RequestedJob
    from agent.ci.plan import Plan


@dataclass(frozen=True, slots=True)
class Case:
    """One commit to heal: its files, and what is known about its failure."""

    id: str  # the checkpoints' thread
    label: str  # for people
    archive: AsyncIterator[bytes]  # gzipped tar with one top folder
    jobs: tuple[RequestedJob, ...] = ()
    notes: tuple[str, ...] = ()  # what the archive lacks, for people
    configuration: Configuration = NO_CONFIGURATION
    command: str | None = None  # a test command that the user gave
    hints: tuple[str, ...] = ()
    heals_flakiness: bool = False  # someone asked to repair flaky failures too
    image: str | None = None  # the failed job's image, if the sandbox was opened with it
    model: str | None = None  # LiteLLM name that the user chose; None: the installation's models
    tag: str = ""  # the newest tag, if no job names it: tools derive the version from it
    good: tuple[LastGood, ...] = ()  # commits that may be the last good one, the most likely first
    history: History | None = None  # older ones
    seen: tuple[CheckRun, ...] = ()  # what the caller saw of the same checks on the same files: it counts as their first runs


@dataclass(frozen=True, slots=True)
class Prepared:
    """A task whose sandbox is ready, with its plan and what was installed."""

    task: Task
    plan: Plan
    installed: Installed


@dataclass(frozen=True, slots=True)
class Uninstalled:
    """The repository's own requirements cannot be installed, so none of its code can run."""

    plan: Plan
    failure: ConfirmedFailure
    ended: NoRepair  # for callers that expect a repair


def without_a_run(outcome: Outcome, reason: str, next_step: str, *notes: str) -> NoRepair:
    """An ending from before the graph started: nothing was tried or spent."""
    log = ReflectionLog(diagnosis=None, iterations=(), lessons=(), rungs=(), notes=notes)
    return NoRepair(outcome=outcome, reason=reason, next_step=next_step, usage=Usage(), log=log)
