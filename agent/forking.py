"""Forks an attempt: a new one starts from an earlier one's checkpoint and takes another way from there.

LangGraph's `aupdate_state` forks inside one thread. Here the fork gets its own thread, so the source keeps its end.
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
    """The way that a fork takes."""

    iteration: int  # the first round that is the fork's own, from 1
    came_from: str  # one sentence for the log
    hint: str = ""  # a person's words for the proposers
    rung: str | None = None  # the one that is asked next: "model:<name>"; None lets the ladder decide


class CannotFork(Exception):
    """The message says why, and what can be done."""


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """Where threads are stored, and the extensions' steps that belong to their flow."""

    saver: BaseCheckpointSaver[str]
    opinions: tuple[Opinion, ...] = ()


async def fork(kept: Checkpoints, source: str, target: str, course: Course) -> None:
    """Start the thread `target` where `source` stood before a round was chosen. Raises `CannotFork` without changing anything.

    The fork inherits what was tried and learned before that round. Its budget of tokens, money and time starts again; its
    rounds count on.
    """
    graph = build(kept.saver, kept.opinions)
    config = RunnableConfig(configurable={"thread_id": source})
    rounds: dict[int, StateSnapshot] = {}
    of_version = None
    async for snapshot in graph.aget_state_history(config):
        of_version = of_version or snapshot.values.get("version")
        if "climb" in snapshot.next:
            rounds.setdefault(snapshot.values.get("iteration", 0) + 1, snapshot)
    if of_version is None:
        raise CannotFork("its checkpoints are gone, or it has not come far enough to have any")
    if of_version != version(kept.opinions):
        raise CannotFork(
            f"its checkpoints are of graph {of_version}, this is {version(kept.opinions)}: another version of Selfheal, "
            "or other extensions, made them"
        )
    if not rounds:
        raise CannotFork("it ended before its first round")
    if course.iteration not in rounds:
        known = f"rounds {min(rounds)} to {max(rounds)}" if len(rounds) > 1 else f"round {min(rounds)}"
        raise CannotFork(f"it can be forked before {known}, not before round {course.iteration}")
    begun = await kept.saver.aget_tuple(rounds[course.iteration].config)
    assert begun is not None, "the history has just shown it"
    metadata: CheckpointMetadata = {**begun.metadata, "source": "fork"}
    there = RunnableConfig(configurable={"thread_id": target, "checkpoint_ns": ""})
    # All channels count as new: on PostgreSQL the others would be lost.
    await kept.saver.aput(there, begun.checkpoint, metadata, begun.checkpoint["channel_versions"])
    # As if `recall` had just ended: `climb` comes next.
    await graph.aupdate_state(there, _update(rounds[course.iteration].values, course), as_node="recall")


def _update(known: dict[str, Any], course: Course) -> State:
    update: State = {
        "usage": Overwrite([]),  # type: ignore[typeddict-item]
        "seconds": Overwrite(0.0),  # type: ignore[typeddict-item]
        "notes": [f"{course.came_from}."],
    }
    if course.hint or course.rung:
        update["diagnosis"] = None  # it was made without the hint, or by a rung that is not asked any more
    if course.hint:
        update["guidance"] = [*known.get("guidance", []), course.hint]
    if course.rung:
        update["asked_next"] = course.rung
    return update
