"""Recalls earlier attempts at similar failures of the same repository."""

from __future__ import annotations

from agent.contract.events import Remembered
from agent.contract.memory import signature
from agent.state import Baseline, State, Work, red_of


async def recall(state: State, work: Work) -> Baseline:
    """Does nothing if the repository has no memory. An attempt does not recall itself."""
    memory = work.context.memory
    if memory is None:
        return {}
    alike = await memory.recall(signature(await red_of(state, work.context)))
    alike = tuple(each for each in alike if each.attempt != work.task.id)
    if not alike:
        return {}
    names, lessons = [each.attempt for each in alike], [lesson for each in alike for lesson in each.lessons]
    text = f"Learned from {', '.join(f'attempt `{name[:12]}`' for name in names)}"
    await work.context.emit(Remembered(text=text, attempts=names, lessons=lessons))
    return {"memories_ref": await work.context.keep(alike), "notes": [f"{text}."]}
