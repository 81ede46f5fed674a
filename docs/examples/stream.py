"""Follow the events while code is written; a configured agent can be used again."""

import asyncio
import sys

from agent import Agent
from agent.contract.budget import Budget
from agent.solving.solution import Solution


async def main(model: str) -> None:
    agent = Agent(model, budget=Budget(iterations=4, seconds=300))
    async for event in agent.stream("Merge overlapping intervals; the result is sorted by start.", name="merge_intervals"):
        if isinstance(event, Solution):
            print("solved" if event.solved else event.reason)
        elif event.text:
            print(event.text)


asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "scripted"))
