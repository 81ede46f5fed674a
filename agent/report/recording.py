"""Reports to the timeline: a step of the flow with its duration and tracing span, and what a rung cost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from langgraph.errors import GraphBubbleUp

from agent.contract import words
from agent.contract.budget import RungCost, Usage
from agent.contract.events import RungSpent, StepDone, StepStarted
from agent.models import tracing
from agent.state import Bookkeeping, State, Work, unpack

Step = Callable[[State, Work], Awaitable[Bookkeeping]]


async def recorded(name: str, step: Step, state: State, work: Work) -> Bookkeeping:
    """The step's update, with the seconds spent so far."""
    rung = work.ladder[at].rung if (at := state.get("rung", 0)) < len(work.ladder) else ""
    await work.context.emit(StepStarted(text=words.step(name, rung), step=name))
    with tracing.step(name, work.task.id, expected=(GraphBubbleUp,)):  # LangGraph raises it to ask a person
        update = await step(state, work)
    seconds = work.context.monotonic() - work.ledger.began
    used = sum((unpack(Usage, usage) for usage in update.get("usage", [])), Usage())
    await work.context.emit(StepDone(text="", step=name, seconds=seconds, tokens=used.tokens_in + used.tokens_out))
    return {**update, "seconds": work.ledger.seconds + seconds}


async def report_cost(work: Work, cost: RungCost) -> None:
    await work.context.emit(
        RungSpent(
            text=words.capitalized(words.effort(cost)),
            rung=cost.rung,
            seconds=cost.seconds,
            tried=cost.tried,
            passed=cost.passed,
            tokens=cost.usage.tokens_in + cost.usage.tokens_out,
            cost=cost.usage.cost,
            note=cost.note,
        )
    )
