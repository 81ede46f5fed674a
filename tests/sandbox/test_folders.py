"""Nothing of ours stays, whenever somebody stops waiting."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from sandbox import folders
from sandbox.backends import open_sandboxes
from sandbox.base import Limits
from sandbox.host import folder_locks
from sandbox.jail import cgroup


@pytest.mark.parametrize("after", [0.0, 0.001, 0.01])
async def test_who_stops_waiting_for_a_folder_leaves_none_behind(tmp_path: Path, after: float) -> None:
    async def hold() -> None:
        async with folders.open_folder(tmp_path, "a label", Limits()):
            await asyncio.sleep(60)

    for _ in range(5):
        task = asyncio.create_task(hold())
        await asyncio.sleep(after)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    assert not list(tmp_path.iterdir())


async def test_it_is_there_while_the_block_runs_and_a_sweep_leaves_it(tmp_path: Path) -> None:
    async with folders.open_folder(tmp_path, "acme/calculator", Limits()) as (folder, _):
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


@pytest.mark.parametrize("moment", ["os.open", "cgroup.make"])
async def test_a_worker_that_is_killed_in_the_middle_of_making_one_leaves_nothing_that_stays(
    tmp_path: Path, moment: str
) -> None:
    program = f"""
import os, signal
from pathlib import Path
from sandbox import folders
from sandbox.base import Limits
from sandbox.folders import cgroup

really = {moment}
def killed(*args, **kwargs):
    if {moment != "os.open"}:
        really(*args, **kwargs)
    os.kill(os.getpid(), signal.SIGKILL)

{moment} = killed
folders._make_both(Path({str(tmp_path)!r}), "a label", Limits())
"""
    worker = await asyncio.create_subprocess_exec(sys.executable, "-c", program)
    assert await worker.wait() == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    group = cgroup.find(left.name)
    await asyncio.to_thread(folders.sweep, tmp_path)
    assert not list(tmp_path.iterdir())
    assert group is None or not any(folder.exists() for folder in group.folders)


async def test_a_disk_that_is_full_while_one_is_made_leaves_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr(cgroup, "make", full)
    with pytest.raises(OSError, match="no space"):
        async with folders.open_folder(tmp_path, "a label", Limits()):
            pass
    assert not list(tmp_path.iterdir())


async def test_what_is_left_of_a_removal_that_was_killed_is_swept(tmp_path: Path) -> None:
    folder = folders.make(tmp_path, "a label")
    (folder.path / "tree").mkdir()
    for entry in folder.path.iterdir():
        if entry.is_file():
            entry.unlink()
    os.close(folder.lock)
    assert not await asyncio.to_thread(folder_locks.is_in_use, folder.path)
    await asyncio.to_thread(folders.sweep, tmp_path)
    assert not list(tmp_path.iterdir())
