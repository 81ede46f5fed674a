"""The first steps of the repair alone: is it really red? For whoever wants to see the failure and nothing more."""

from __future__ import annotations

from dataclasses import dataclass

from agent import words
from agent.budget import Ledger
from agent.checks import Runner
from agent.endings import Ending
from agent.events import StepStarted
from agent.nodes.probe import probe
from agent.nodes.reproduce import reproduce
from agent.outcome import NoRepair, ReflectionLog
from agent.state import Context, Work, unpack
from agent.task import Task
from agent.usage import Usage
from agent.verdicts import Check, CheckRun, Oracle


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


async def reproduced(task: Task, context: Context) -> Red | NoRepair:
    """Raises `SandboxError` when the sandbox is lost."""
    runner = Runner(task.sandbox)
    await runner.prepare()
    ledger = Ledger(task.budget, 0, Usage(), 0.0, context.monotonic(), context.monotonic)
    ran = ", ".join(f"`{check.name}`" for check in task.checks)
    await context.emit(StepStarted(text=f"{words.step('reproduce', '')}: {ran}", step="reproduce"))
    work = Work(task, context, runner, ledger)
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
