"""The graph's state (`State`) and what its steps work with (`Context`, `Work`).

The state is stored after every node and read by other processes, so it holds only plain data: numbers, short texts, names of
blobs, and small dataclasses that `pack` turned into plain data. Large values are stored as blobs. The context is never stored;
the caller passes it again at every resume.
"""

from __future__ import annotations

import operator
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, TypedDict, TypeVar

import msgspec

from agent.checks.oracle import failures
from agent.contract.blobs import Blobs
from agent.contract.budget import Ledger, Usage
from agent.contract.events import Degraded, Emit
from agent.contract.memory import Memory
from agent.contract.proposal import rung_kind
from agent.contract.task import Task
from agent.contract.verdicts import Check, CheckRun, Failure, Oracle, VerdictId
from agent.diagnosis.evidence import is_similar
from agent.proposer import BackgroundSearch, Proposer

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver

    from agent.checks.runner import Runner
    from agent.models.router import Models

T = TypeVar("T")
LESSONS = 5  # the most that are kept from iteration to iteration


@dataclass(frozen=True, slots=True)
class Opinion:
    """An extension's step that gives a second opinion on the proven candidate (see `objection`)."""

    name: str
    step: Callable[[State, Work], Awaitable[Winner]]


@dataclass(frozen=True, slots=True)
class Context:
    """What the caller passes to a repair, at the start and at every resume."""

    emit: Emit
    proposers: tuple[Proposer, ...]  # cheapest first
    models: Models | None
    blobs: Blobs
    checkpointer: BaseCheckpointSaver[str] | None  # None: nothing is kept after the call
    memory: Memory | None = None  # of this repository; None remembers nothing
    opinions: tuple[Opinion, ...] = ()  # the extensions' steps, after `review`
    monotonic: Callable[[], float] = time.monotonic

    async def keep(self, value: object) -> str:
        """Store a dataclass (or a tuple of them) as a blob; returns its name."""
        return await self.blobs.put(msgspec.json.encode(value))

    async def recall(self, kind: type[T], name: str) -> T:
        """Load what `keep` stored. `kind` is its type, which can be parametrised. Raises `BlobMissing`."""
        return msgspec.json.decode(await self.blobs.get(name), type=kind)


@dataclass(frozen=True, slots=True)
class Work:
    """What one step of the graph works with."""

    task: Task
    context: Context
    runner: Runner
    ledger: Ledger
    background: BackgroundSearch = field(default_factory=BackgroundSearch)
    rejecting: dict[str, frozenset[VerdictId]] = field(default_factory=dict)  # by check: tests that earlier changes broke
    again: dict[str, CheckRun] = field(default_factory=dict)  # by check: another run of everything at the base
    # By check: exit code and last line, without numbers, if the command fails after the passing tests of the base.
    afterwards: dict[str, tuple[int | None, str] | None] = field(default_factory=dict)

    def patience(self, check: Check) -> float:
        """Seconds for one run of a check: its own limit, within the attempt's remaining time."""
        return max(1.0, min(check.timeout, self.ledger.seconds_left()))

    @property
    def ladder(self) -> tuple[Proposer, ...]:
        """The rungs that the policy allows, cheapest first."""
        allowed = self.task.policy.rungs
        return tuple(proposer for proposer in self.context.proposers if rung_kind(proposer.rung) in allowed)


def _longest(one: float, other: float) -> float:
    """Parallel steps count once. (LangGraph cannot read the signature of `max`.)"""
    return max(one, other)


class Bookkeeping(TypedDict, total=False):
    """Written by every step."""

    version: str  # of the flow
    seconds: Annotated[float, _longest]  # working time so far, on all workers
    usage: Annotated[list[Any], operator.add]  # packed `Usage`, one for each step that asked a model
    notes: Annotated[list[str], operator.add]  # what was degraded or skipped, and why, in sentences
    degraded: Annotated[list[str], operator.add]  # the steps that fell back to something weaker


class Baseline(Bookkeeping, total=False):
    """The failure without any change. Written by `reproduce`, `probe`, `compare`, `localize`, `recall`."""

    rounds_ref: str  # tuple[Round, ...]: all runs, if no failure occurred in every one
    oracle_ref: str  # Oracle
    base_ref: str  # tuple[CheckRun, ...]: the first run of each check
    regression_ref: str  # Regression: what changed since the last good commit, if failing verdicts pass there
    is_brief: bool  # were the runs so short that two can run in parallel?
    suspects_ref: str  # tuple[Span, ...]
    memories_ref: str  # tuple[Recollection, ...], the most similar first


class Turn(Bookkeeping, total=False):
    """The current rung. Written by `climb`; `diagnose`, `propose`, `reflect` and `review` report back to it."""

    rung: int  # index of the current rung in the ladder
    asked_next: str  # name of the rung that a person chose for the next round; "": the ladder decides
    strategies: list[str]  # of this round, asked in parallel; none when the ladder ends
    strategy: str  # of one parallel branch
    iteration: int
    round: int  # of the current rung
    fruitless: int  # rounds of the current rung, in a row, without anything new to judge
    searching: int  # 1 + the index of the rung whose search goes on while a model is asked; 0: none
    rounds: Annotated[list[Any], operator.add]  # packed `StrategyResult`, one for each strategy, until `climb` has read them
    rungs: Annotated[list[Any], operator.add]  # packed `RungCost`, one for each strategy
    refused_behind: int  # how many refusals concern earlier rungs
    rejected: int  # how many changes that a search found the review rejected since the current rung began
    stuck: int  # how many of the last changes, in a row, failed in the same way


class Candidates(Bookkeeping, total=False):
    """Changes to be judged. Written by `climb`, `propose`, `guard`, `verify`, `select`, `prove`, `challenge`, `approve`,
    `reflect`.

    A ref names a `Candidate` in the blobs; a verdict is [ref, packed `Verification`].
    """

    proposed: Annotated[list[str], operator.add]  # refs that wait for the guard
    alternatives: int  # further candidates of the same search that passed the failing verdicts
    support: dict[str, int]  # digest of a change → how many times it was proposed
    allowed: list[str]  # refs that wait for `verify`, best first
    alone: Annotated[list[str], operator.add]  # refs to verify alone: found by trying, or out of memory next to others
    judging: str  # ref, of one parallel branch
    beside: int  # of one parallel branch: how many others are judged at the same time
    judged: Annotated[list[Any], operator.add]  # verdicts that wait for `select`
    passed: list[Any]  # verdicts of candidates that passed and were not selected yet
    failed: Annotated[list[Any], operator.add]  # verdicts that wait for `reflect`
    tried: Annotated[list[str], operator.add]  # digests of judged changes
    refused: Annotated[list[str], operator.add]  # guard rules that refused a candidate, in order


class Winner(Bookkeeping, total=False):
    """The selected change. Written by `select`, `prove`, second opinions, `weigh`, `approve` and `reflect`."""

    winner: Any  # verdict of the selected candidate, later with its proof; None if there is none
    proven_in: Any  # the environment of the winner's proof, and its differences from CI
    objection: Any  # packed `Objection` of a second opinion
    opinions: Annotated[list[Any], operator.add]  # packed `Opined` events on winners
    challenged: Any  # packed `Challenged` of the last winner
    unsure: int  # how many winners of the current search were too unsure to be published
    unsure_refs: list[str]  # Repair: all winners that were too unsure
    written: dict[str, str]  # digest of a test writer's input → ref of its tests, written without seeing the change


class Learning(Bookkeeping, total=False):
    """What failures showed. Written by `diagnose`, `reflect`, `climb` and `propose`."""

    diagnosis: Any  # packed `Diagnosis`, or None if it was refuted
    iterations: Annotated[list[str], operator.add]  # refs of Iteration
    partial: list[Any]  # [failing results that it fixed, its ref of Iteration, digest]: the failed change that fixed most
    lessons: list[str]
    doubted: Annotated[list[str], operator.add]  # causes that one failed change addressed
    refuted: Annotated[list[str], operator.add]  # causes that are not tried again
    culprit_ref: str  # Culprit: the part of the change since the last good commit that broke the tests
    groundwork: str  # ref of a candidate from `tools` that fixed a part and broke nothing: later candidates build on it


class End(Bookkeeping, total=False):
    """The replies of people, and the end. Written by `reproduce`, `probe`, `compare`, `approve_round`, `approve`, `report`."""

    guidance: list[str]  # what a person wrote, and what runs under other conditions showed
    asked: int  # the last iteration that a person was asked about
    ending: Any  # packed `Ending`: the attempt is over without a repair
    result: list[str]  # ["repair" | "no_repair", ref]


class State(Baseline, Turn, Candidates, Winner, Learning, End, total=False):
    """Everything that a resumed repair needs, in one flat dict: LangGraph's reducers work by key.

    A step's return type names the part that it writes, or one of the combinations below, so that mypy checks it.
    """


class BaselineOrEnd(Baseline, End, total=False):
    """What `reproduce`, `probe` and `compare` write."""


class Direction(Turn, Candidates, Learning, total=False):
    """What `climb` and `diagnose` write."""


class Proposals(Turn, Candidates, Learning, total=False):
    """What `propose` writes."""


class Contest(Candidates, Winner, total=False):
    """What `select`, `prove`, `challenge` and `weigh` write."""


class Reviewed(Turn, Winner, total=False):
    """What `review` writes."""


class Approval(Contest, End, total=False):
    """What `approve` writes."""


class Reflection(Contest, Direction, total=False):
    """What `reflect` writes."""


@dataclass(frozen=True, slots=True)
class StrategyResult:
    """What one strategy of a rung produced."""

    fresh: int  # candidates that are new
    plausible: int
    exhausted: bool
    lesson: str = ""  # for its next round


@dataclass(frozen=True, slots=True)
class Objection:
    """Why a second opinion rejects the winner. The winner then counts as failed for that reason."""

    by: str
    reason: str


def pack(value: object) -> Any:
    """A small dataclass as plain data."""
    return msgspec.to_builtins(value)


def unpack(kind: type[T], data: Any) -> T:
    """The dataclass that `pack` packed (lists and tuples are both accepted)."""
    return msgspec.convert(data, kind)


def spent(state: State) -> Usage:
    """What models cost so far."""
    return sum((unpack(Usage, usage) for usage in state.get("usage", [])), Usage())


def remember(lessons: list[str], lesson: str) -> list[str]:
    """The lessons with one added. It replaces a similar one; if there are too many, the oldest is dropped."""
    kept = [known for known in lessons if not is_similar(known, lesson)]
    return [*kept, lesson][-LESSONS:]


async def base_runs(state: State, context: Context) -> dict[str, CheckRun]:
    """The base's runs, by check name."""
    return {run.check: run for run in await context.recall(tuple[CheckRun, ...], state["base_ref"])}


async def red_of(state: State, context: Context) -> tuple[Failure, ...]:
    """The failures that must be fixed."""
    oracle = await context.recall(Oracle, state["oracle_ref"])
    base = await context.recall(tuple[CheckRun, ...], state["base_ref"])
    return failures(base, (id_ for ids in oracle.must_turn.values() for id_ in ids))


async def fell_back(work: Work, step: str, why: str, *usage: Usage) -> State:
    """Emit and record that a step fell back to something weaker, which lowers the confidence. `usage` is what it cost."""
    await work.context.emit(Degraded(text=why, step=step, why=why))
    return {"notes": [why], "degraded": [step], "usage": [pack(each) for each in usage]}
