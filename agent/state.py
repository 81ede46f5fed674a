"""What the graph remembers (`State`) and what its steps work with (`Context`, `Work`).

The state is written after every node and read by another process, so it holds plain data alone: numbers, short texts, names of
blobs, and small dataclasses of `agent.task` turned into plain data by `pack`. Whatever is heavy lies in the blobs. The context
is never written: it is handed in again at every resume.
"""

from __future__ import annotations

import operator
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypedDict, TypeVar

import msgspec

from agent.blobs import Blobs
from agent.budget import Ledger
from agent.events import Emit
from agent.proposers.base import Proposer
from agent.task import Check, Task, Usage

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver

    from agent.checks import Runner
    from agent.model import Models

T = TypeVar("T")
LESSONS = 5  # as many travel from iteration to iteration


@dataclass(frozen=True, slots=True)
class Context:
    """What the caller lends to a repair; the same at the start and at every resume."""

    emit: Emit
    proposers: tuple[Proposer, ...]  # cheapest first
    models: Models | None
    blobs: Blobs
    checkpointer: BaseCheckpointSaver[str]
    monotonic: Callable[[], float] = time.monotonic

    async def keep(self, value: object) -> str:
        """Put a dataclass (or a tuple of them) into the blobs; returns its name."""
        return await self.blobs.put(msgspec.json.encode(value))

    async def recall(self, kind: type[T], name: str) -> T:
        """What `keep` kept. `kind` is its type, also a parametrised one. Raises `BlobMissing`."""
        return msgspec.json.decode(await self.blobs.get(name), type=kind)


@dataclass(frozen=True, slots=True)
class Work:
    """What one step of the graph works with."""

    task: Task
    context: Context
    runner: Runner
    ledger: Ledger

    def patience(self, check: Check) -> float:
        """Seconds that one run of a check may take now: its own limit, within what the attempt has left."""
        return max(1.0, min(check.timeout, self.ledger.seconds_left()))

    @property
    def ladder(self) -> tuple[Proposer, ...]:
        """The rungs that the policy lets climb, cheapest first."""
        allowed = self.task.policy.rungs
        return tuple(proposer for proposer in self.context.proposers if proposer.rung.partition(":")[0] in allowed)


class State(TypedDict, total=False):
    """Everything that a resumed repair needs. `…_ref` names a blob."""

    version: int
    seconds: Annotated[float, operator.add]  # worked so far, over all workers
    usage: Annotated[list[Any], operator.add]  # packed `Usage`, one a step that asked a model
    notes: Annotated[list[str], operator.add]  # what was degraded or skipped, and why

    oracle_ref: str  # Oracle
    base_ref: str  # tuple[CheckRun, ...]: the first run of each check at the base
    suspects_ref: str  # tuple[Span, ...]
    diagnosis: Any  # packed `Diagnosis`

    rung: int  # where on the ladder the next proposal is asked
    iteration: int
    fruitless: int  # rounds of the current rung, in a row, that brought nothing new to judge
    rungs: Annotated[list[Any], operator.add]  # packed `RungCost`, one a proposal
    pending: list[str]  # refs of Candidate that wait for their judgement, best first
    alternatives: int  # further candidates of the same proposal that passed the failing verdicts
    judged_ref: str  # the Candidate that was judged last
    verification: Any  # packed `Verification` of it
    tried: Annotated[list[str], operator.add]  # digests of judged changes
    refused: Annotated[list[str], operator.add]  # guard rules that refused a candidate, in order
    iterations: Annotated[list[str], operator.add]  # refs of Iteration
    lessons: list[str]

    ending: Any  # packed `Ending`: the attempt is over without a repair
    result: list[str]  # ["repair" | "no_repair", ref]


def pack(value: object) -> Any:
    """A small dataclass as plain data."""
    return msgspec.to_builtins(value)


def unpack(kind: type[T], data: Any) -> T:
    """The dataclass that `pack` packed (sequences may have come back as lists)."""
    return msgspec.convert(data, kind)


def spent(state: State) -> Usage:
    """What models cost so far."""
    return sum((unpack(Usage, usage) for usage in state.get("usage", [])), Usage())


def remember(state: State, lesson: str) -> list[str]:
    """The lessons with one more; the oldest is forgotten, and the same lesson is not learned twice."""
    kept = [known for known in state.get("lessons", []) if known != lesson]
    return [*kept, lesson][-LESSONS:]
