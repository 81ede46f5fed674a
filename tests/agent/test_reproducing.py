"""The first steps ahead of the graph: taken once, and only as far as they need nothing that comes between."""

from __future__ import annotations

from pathlib import Path

from agent.blobs import MemoryBlobs
from agent.contract import events
from agent.reproducing import begun
from agent.state import Context
from agent.task import Task
from tests.agent.workbench import PYTEST, RIGHT, SAMPLE, sandbox_with


async def _deaf(_: events.AnyEvent) -> None:
    pass


def _context() -> Context:
    return Context(_deaf, (), None, MemoryBlobs(), None)


async def test_a_step_that_is_under_way_is_taken_once_and_its_time_counts_on(tmp_path: Path) -> None:
    async with sandbox_with(tmp_path, SAMPLE) as sandbox, begun(Task("t1", sandbox, (PYTEST,)), _context()) as first:
        red, place = await first.take("reproduce"), await first.take("localize")
        assert red is not None
        assert place is not None
        assert "oracle_ref" in red
        assert "suspects_ref" in place
        assert place["seconds"] > red["seconds"]
        assert await first.take("reproduce") is None  # a flow that starts afresh looks itself
        assert await first.take("recall") is None


async def test_the_place_of_what_is_not_red_is_left_to_the_graph(tmp_path: Path) -> None:
    green = {**SAMPLE, RIGHT[0].path: RIGHT[0].after or ""}
    async with sandbox_with(tmp_path, green) as sandbox, begun(Task("t1", sandbox, (PYTEST,)), _context()) as first:
        seen = await first.take("reproduce")
        assert seen is not None
        assert "oracle_ref" not in seen
        assert await first.take("localize") is None
