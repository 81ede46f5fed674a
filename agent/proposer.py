"""The ladder's rule: what a rung is told and what it answers.

A rung only proposes. Every candidate, whoever proposed it, goes through the same gate (guard, then verify).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from agent.contract.events import Emit
from agent.contract.memory import Recollection
from agent.contract.outcome import Iteration
from agent.contract.proposal import Candidate, Diagnosis, Span
from agent.contract.usage import Usage
from agent.contract.verdicts import CheckRun, Oracle
from agent.task import Policy
from sandbox.base import Sandbox

if TYPE_CHECKING:
    from agent.checks.runner import Runner


@dataclass(frozen=True, slots=True)
class Situation:
    """Everything a rung may know when it proposes."""

    sandbox: Sandbox
    runner: Runner
    oracle: Oracle
    red: tuple[CheckRun, ...]  # the base's runs, one a check
    suspects: tuple[Span, ...]  # best first
    policy: Policy
    emit: Emit
    seconds: float  # what this call may take
    diagnosis: Diagnosis | None = None
    lessons: tuple[str, ...] = ()
    earlier: tuple[Iteration, ...] = ()  # the last changes that failed, oldest first
    hints: tuple[str, ...] = ()
    memories: tuple[Recollection, ...] = ()  # earlier attempts at failures like these
    tried: frozenset[str] = frozenset()  # digests (`agent.edits.digest`) of changes that were already judged
    iteration: int = 1
    round: int = 1  # how often this rung was asked, this time included
    strategy: str = ""  # one of the rung's `strategies`; "" where it has but one way
    refuted: tuple[str, ...] = ()  # causes that failed changes were made for: they are not the cause
    stuck: int = 0  # how many of the last changes in a row failed in the very same way
    calls: int = 50  # of a model, that can still be paid


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a rung came up with; `exhausted` means asking it again brings nothing new."""

    candidates: tuple[Candidate, ...] = ()
    tried: int = 0  # changes evaluated inside the rung
    plausible: int = 0  # of those, how many passed the failing verdicts inside the rung
    usage: Usage = Usage()
    note: str = ""
    exhausted: bool = True


class Proposer(Protocol):
    """One rung of the ladder."""

    @property
    def rung(self) -> str:
        """ "tools", "patterns" or "model:<name>"."""

    def can_help(self, situation: Situation) -> str | None:
        """None when it can, else the reason why it cannot, as a clause ("no Python file is suspicious")."""

    async def propose(self, situation: Situation) -> Proposal:
        """Raises `agent.model.ModelError` and `sandbox.base.SandboxError`; everything else it answers as values."""


@runtime_checkable
class Strategist(Protocol):
    """A rung that may be asked in several independent ways, beside each other."""

    def strategies(self, situation: Situation) -> tuple[str, ...]:
        """Their names, at least one; each becomes a call of `propose` with `Situation.strategy` set."""
