"""The first steps of the repair without the graph: is it really red, and where may it be?

For whoever wants to see the failure and nothing more, and for whoever waits until LangGraph is loaded.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from agent import words
from agent.checks.runner import Runner
from agent.contract.budget import Ledger
from agent.contract.events import StepStarted
from agent.contract.outcome import NoRepair, ReflectionLog
from agent.contract.usage import Usage
from agent.contract.verdicts import Check, CheckRun, Oracle
from agent.nodes.localize import localize
from agent.nodes.probe import probe
from agent.nodes.reproduce import reproduce
from agent.report.endings import Ending
from agent.report.recording import recorded
from agent.state import Context, State, Work, unpack
from agent.task import Task


@dataclass(frozen=True, slots=True)
class Red:
    """The failure, seen. `base` is the first run of each check."""

    oracle: Oracle
    base: tuple[CheckRun, ...]
    notes: tuple[str, ...] = ()

    @classmethod
    def of_one(cls, check: Check, run: CheckRun) -> Red:
        """One red run that nothing else could be asked after."""
        return cls(Oracle((check,), {check.name: run.red}, {check.name: run.green}), (run,))

    @property
    def failing(self) -> tuple[str, ...]:
        """Ids of what must turn green, sorted."""
        return tuple(sorted(id_ for ids in self.oracle.must_turn.values() for id_ in ids))


@dataclass(frozen=True, slots=True)
class Begun:
    """A repair's first steps, under way; the graph takes their updates when it comes there, and goes on with the `runner`."""

    runner: Runner
    updates: dict[str, asyncio.Task[State | None]]

    async def take(self, step: str) -> State | None:
        """The step's update, None where the graph has to do it: also at a second time, in a flow that starts afresh.

        Raises what the step raised.
        """
        update = self.updates.pop(step, None)
        return None if update is None else await update


@asynccontextmanager
async def begun(task: Task, context: Context) -> AsyncIterator[Begun]:
    """For the block, see whether it is red, and where. Only for a task without a checkpoint: another one may be further.

    Raises `SandboxError`.
    """
    runner = Runner(task.sandbox)
    await runner.prepare()

    async def reproducing() -> State:
        return await recorded("reproduce", reproduce, {}, _work(task, context, runner, {}))

    async def localizing() -> State | None:
        state = await first
        if "oracle_ref" not in state:
            return None
        return await recorded("localize", localize, state, _work(task, context, runner, state))

    first = asyncio.create_task(reproducing())
    updates: dict[str, asyncio.Task[State | None]] = {"reproduce": first, "localize": asyncio.create_task(localizing())}
    running = tuple(updates.values())
    try:
        yield Begun(runner, updates)
    finally:
        for update in running:
            update.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def reproduced(task: Task, context: Context) -> Red | NoRepair:
    """Raises `SandboxError` when the sandbox is lost."""
    runner = Runner(task.sandbox)
    await runner.prepare()
    work = _work(task, context, runner, {})
    ran = ", ".join(f"`{check.name}`" for check in task.checks)
    await context.emit(StepStarted(text=f"{words.step('reproduce', '')}: {ran}", step="reproduce"))
    state = await reproduce({}, work)
    if "rounds_ref" in state:
        state = await probe(state, work)
    notes = tuple(state.get("notes", ()))
    if "ending" in state:
        ending = unpack(Ending, state["ending"])
        log = ReflectionLog(None, (), (), (), notes)
        return NoRepair(ending.outcome, ending.reason, ending.next_step, Usage(), log, ending.flakiness)
    oracle = await context.recall(Oracle, state["oracle_ref"])
    return Red(oracle, await context.recall(tuple[CheckRun, ...], state["base_ref"]), notes)


def _work(task: Task, context: Context, runner: Runner, state: State) -> Work:
    """Of a repair that has just come to this state, before a model was asked."""
    spent = Ledger(task.budget, 0, Usage(), state.get("seconds", 0.0), context.monotonic(), context.monotonic)
    return Work(task, context, runner, spent)
