"""The interface of a rung: what it gets and what it returns.

A rung only proposes. Every candidate goes through the same steps: guard, verify, prove.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from agent.contract.budget import Usage
from agent.contract.events import Emit
from agent.contract.last_good import Culprit, Regression
from agent.contract.memory import Recollection
from agent.contract.outcome import Iteration
from agent.contract.proposal import Candidate, Diagnosis, Span
from agent.contract.task import Policy
from agent.contract.verdicts import CheckRun, Oracle
from sandbox.base import Sandbox

if TYPE_CHECKING:
    from agent.checks.runner import Runner


@dataclass(frozen=True, slots=True)
class Situation:
    """What a rung gets to know when it proposes."""

    sandbox: Sandbox
    runner: Runner
    oracle: Oracle
    red: tuple[CheckRun, ...]  # the base's runs, one per check
    suspects: tuple[Span, ...]  # best first
    policy: Policy
    emit: Emit
    seconds: float  # for this call
    diagnosis: Diagnosis | None = None
    lessons: tuple[str, ...] = ()
    earlier: tuple[Iteration, ...] = ()  # the last changes that failed, oldest first
    hints: tuple[str, ...] = ()
    memories: tuple[Recollection, ...] = ()  # earlier attempts at failures like these
    tried: frozenset[str] = frozenset()  # digests (`agent.edits.changes.digest`) of changes judged so far
    iteration: int = 1
    round: int = 1  # counted per rung, from 1
    strategy: str = ""  # one of the rung's `strategies`, or ""
    refuted: tuple[str, ...] = ()  # causes that failed changes ruled out
    stuck: int = 0  # how many of the last changes, in a row, failed in the same way
    calls: int = 50  # model calls that the budget still allows
    regression: Regression | None = None  # what changed since the last good commit, if a failing verdict passes there
    culprit: Culprit | None = None  # the part of it that broke the tests, if known


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a rung proposes; `exhausted` means that another round would bring nothing new."""

    candidates: tuple[Candidate, ...] = ()
    tried: int = 0  # changes that the rung evaluated itself
    plausible: int = 0  # how many of those passed the failing checks there
    usage: Usage = Usage()
    note: str = ""
    lesson: str = ""  # what the rung should know in its next round; an answer that did not arrive teaches nothing
    exhausted: bool = True
    culprit: Culprit | None = None  # what broke the tests, if the rung found that
    is_outage: bool = False  # the model could not be asked; `note` says why


class Proposer(Protocol):
    """One rung of the ladder."""

    @property
    def rung(self) -> str:
        """ "tools", "history", "patterns" or "model:<name>"."""

    def can_help(self, situation: Situation) -> str | None:
        """None if it can, else the reason as a clause ("no Python file is suspicious")."""

    async def propose(self, situation: Situation) -> Proposal:
        """Propose changes. Raises only `agent.models.values.ModelError` and `sandbox.base.SandboxError`."""


@runtime_checkable
class Strategist(Protocol):
    """A rung with several independent strategies, which run in parallel."""

    def strategies(self, situation: Situation) -> tuple[str, ...]:
        """At least one name; each becomes a call of `propose` with `Situation.strategy` set."""


class BackgroundSearch:
    """A search that goes on while a model is asked: at most one at a time.

    It is a task beside the steps of the graph and not part of their checkpoint. After a kill it is lost, and starts again when
    its result is wanted.
    """

    def __init__(self) -> None:
        self._task: asyncio.Task[Proposal] | None = None
        self.since: float | None = None  # `Context.monotonic` since when it goes on beside a model

    def start(self, search: Coroutine[Any, Any, Proposal]) -> None:
        self._task, self.since = asyncio.create_task(search), None

    def has_ended(self) -> bool:
        return self._task is not None and self._task.done()

    async def result(self, seconds: float | None = None) -> Proposal | None:
        """None if there is none within this time, or if the search was lost. Raises what the search raised."""
        if (task := self._task) is None:
            return None
        done, _ = await asyncio.wait({task}, timeout=seconds)
        if not done or self._task is not task:  # another strategy of the model has taken it meanwhile
            return None
        self._task = None
        return task.result()

    async def stop(self) -> None:
        """End it, and wait until its processes are gone."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):  # nobody wants its result, whatever it was
                await task
