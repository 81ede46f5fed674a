"""The repair of one task, whole, on one page."""

from __future__ import annotations

from agent.state import Context
from agent.task import NoRepair, Repair, Task

GRAPH_VERSION = 1  # raise it when a node is renamed or the state changes its meaning


async def repair(task: Task, context: Context) -> Repair | NoRepair:
    """Heal one task; goes on from the checkpoint of thread `task.id` if there is one."""
    raise NotImplementedError
