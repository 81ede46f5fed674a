"""Forks an attempt: a new attempt starts from a checkpoint of an earlier one and takes a different course.

LangGraph's `aupdate_state` forks inside one thread. Here the fork gets its own thread, so the source's result stays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointMetadata
from langgraph.types import Overwrite

from agent.graph import build, version
from agent.state import Opinion, State

if TYPE_CHECKING:
    from langgraph.types import StateSnapshot


@dataclass(frozen=True, slots=True)
class Course:
    """What a fork does differently from its source."""

    iteration: int  # the fork's first own round, from 1
    came_from: str  # one sentence for the log
    hint: str = ""  # the user's text for the proposers
    rung: str | None = None  # the rung to ask next: "model:<name>"; None: the ladder decides


class CannotFork(Exception):
    """The attempt cannot be forked. The message says why."""


async def fork(
    saver: BaseCheckpointSaver[str], opinions: tuple[Opinion, ...], source: str, target: str, course: Course
) -> None:
    """Start the thread `target` from the state of `source` before a round. Raises `CannotFork` without changing anything.

    The fork inherits what was tried and learned before that round. Its spent tokens, money and time start again at zero; its
    rounds keep counting.
    """
    graph = build(saver, opinions)
    config = RunnableConfig(configurable={"thread_id": source})
    rounds: dict[int, StateSnapshot] = {}
    of_version = None
    async for snapshot in graph.aget_state_history(config):
        of_version = of_version or snapshot.values.get("version")
        if "climb" in snapshot.next:
            rounds.setdefault(snapshot.values.get("iteration", 0) + 1, snapshot)
    if of_version is None:
        raise CannotFork("its checkpoints are gone, or it ended before it had any")
    if of_version != version(opinions):
        raise CannotFork(
            f"its checkpoints have graph version {of_version}, not {version(opinions)}: they were made by another "
            "version of Selfheal or with other extensions"
        )
    if not rounds:
        raise CannotFork("it ended before its first iteration")
    if course.iteration not in rounds:
        known = f"iterations {min(rounds)} to {max(rounds)}" if len(rounds) > 1 else f"iteration {min(rounds)}"
        raise CannotFork(f"it can only be forked before {known}, not before iteration {course.iteration}")
    begun = await saver.aget_tuple(rounds[course.iteration].config)
    assert begun is not None, "the history has just shown it"
    metadata: CheckpointMetadata = {**begun.metadata, "source": "fork"}
    there = RunnableConfig(configurable={"thread_id": target, "checkpoint_ns": ""})
    # All channels count as new: on PostgreSQL the others would be lost.
    await saver.aput(there, begun.checkpoint, metadata, begun.checkpoint["channel_versions"])
    # The update counts as that of `recall`, so `climb` comes next.
    await graph.aupdate_state(there, _update(rounds[course.iteration].values, course), as_node="recall")


def _update(known: dict[str, Any], course: Course) -> State:
    update: State = {
        "usage": Overwrite([]),  # type: ignore[typeddict-item]
        "seconds": Overwrite(0.0),  # type: ignore[typeddict-item]
        "notes": [f"{course.came_from}."],
    }
    if course.hint or course.rung:
        update["diagnosis"] = None  # it was made without the hint, or by another rung
    if course.hint:
        update["guidance"] = [*known.get("guidance", []), course.hint]
    if course.rung:
        update["asked_next"] = course.rung
    return update
