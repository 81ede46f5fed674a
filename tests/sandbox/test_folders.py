"""Nothing of ours stays, whenever somebody stops waiting."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from pathlib import Path

import pytest

from sandbox import folders
from sandbox.base import Limits
from sandbox.choose import open_sandboxes


@pytest.mark.parametrize("after", [0.0, 0.001, 0.01])
async def test_who_stops_waiting_for_a_folder_leaves_none_behind(tmp_path: Path, after: float) -> None:
    async def hold() -> None:
        async with folders.held(tmp_path, "a label", Limits()):
            await asyncio.sleep(60)

    for _ in range(5):
        task = asyncio.create_task(hold())
        await asyncio.sleep(after)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    assert not list(tmp_path.iterdir())


async def test_it_is_there_while_the_block_runs_and_a_sweep_leaves_it(tmp_path: Path) -> None:
    async with folders.held(tmp_path, "acme/calculator", Limits()) as (folder, _):
        await asyncio.to_thread(folders.sweep, tmp_path)
        assert folder.path.is_dir()
        assert folder.path.name.startswith("acme-calculator-")
    assert not list(tmp_path.iterdir())


async def test_what_a_dead_worker_left_is_swept_by_the_next_one_to_start_and_by_the_next_to_open_one(tmp_path: Path) -> None:
    def left() -> Path:
        """The kernel lets go of a dead process's locks."""
        folder = folders.make(tmp_path / "open", "acme/calculator")
        os.close(folder.lock)
        return folder.path

    at_start = left()
    sandboxes = await open_sandboxes("process", tmp_path, trusted=True)
    assert not at_start.exists()
    later = left()
    async with sandboxes.open("another"):
        assert not later.exists()
