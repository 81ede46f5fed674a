"""Reports what a rung cost and found as an event."""

from __future__ import annotations

from agent.contract import words
from agent.contract.events import RungSpent
from agent.contract.usage import RungCost
from agent.state import Work


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
