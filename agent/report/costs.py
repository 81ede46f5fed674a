"""What a rung cost and brought, told as an event."""

from __future__ import annotations

from agent import words
from agent.contract.events import RungSpent
from agent.contract.usage import RungCost
from agent.state import Work


async def tell_cost(work: Work, cost: RungCost) -> None:
    who, note = words.rung(cost.rung), f" ({cost.note})" if cost.note else ""
    await work.context.emit(
        RungSpent(
            text=f"{who[0].upper()}{who[1:]} {words.effort(cost)}{note}",
            rung=cost.rung,
            seconds=cost.seconds,
            tried=cost.tried,
            passed=cost.passed,
            tokens=cost.usage.tokens_in + cost.usage.tokens_out,
            cost=cost.usage.cost,
            note=cost.note,
        )
    )
