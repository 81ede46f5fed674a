"""What only the worker's side can see: whether a command and what it left behind really ended."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest

from sandbox.base import Command, Completed, DeadlinePassed, Isolation, Limits, Sandboxes, Workspace
from sandbox.proof import prove


class Leaky:
    """A workspace that ends a command at its deadline, and forgets what it left in the background."""

    python = sys.executable

    def __init__(self, folder: Path) -> None:
        self.folder, self.sessions = folder, list[int]()

    async def run(self, command: Command) -> Completed:
        process = await asyncio.create_subprocess_exec(*command.argv, cwd=self.folder)
        try:
            async with asyncio.timeout(command.timeout):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
        raise DeadlinePassed(command.timeout)

    async def read(self, path: str) -> bytes:
        return (self.folder / path).read_bytes()


class Stuck(Leaky):
    """One in which nothing is ever started."""

    async def run(self, command: Command) -> Completed:
        raise DeadlinePassed(command.timeout)


@pytest.fixture
async def leaky(tmp_path: Path) -> AsyncIterator[Leaky]:
    yield Leaky(tmp_path)
    for entry in os.scandir("/proc"):  # what it forgot
        if entry.name.isdecimal():
            try:
                if os.readlink(f"{entry.path}/cwd") == str(tmp_path):
                    os.kill(int(entry.name), signal.SIGKILL)
            except OSError:
                continue


class NoProc(Leaky):
    """One in which the attacks find nothing under /proc, and one of them ends the program."""

    root = "/"
    isolation = Isolation("scripted", untrusted=True)

    async def provide(self, name: str, content: bytes) -> str:
        (self.folder / name).write_bytes(content)
        return name

    @asynccontextmanager
    async def candidate(self) -> AsyncIterator[NoProc]:
        yield self

    async def run(self, command: Command) -> Completed:
        lines = '{"attack": "first environment", "broken": "FileNotFoundError: /proc/1/environ"}\n'
        return Completed(-11, lines.encode(), b"Segmentation fault\n", 0.1)


class NoProcs:
    @asynccontextmanager
    async def open(self, label: str, limits: Limits) -> AsyncIterator[NoProc]:
        with tempfile.TemporaryDirectory() as folder:
            yield NoProc(Path(folder))


async def test_attacks_that_could_not_be_tried_fail_and_are_no_holes() -> None:
    found = {each.name: each for each in await prove.prove_decisive(cast(Sandboxes, NoProcs()), prove.HostAssets())}
    assert all(each.is_decisive for each in found.values())
    assert found["first environment"].seen == "could not be tried: FileNotFoundError: /proc/1/environ"
    assert found["own environment"].seen == "could not be tried: Segmentation fault"
    (advice,) = {each.fix for each in found.values()}
    assert advice == "fix what prevented the test: untrusted code runs only if this test passes"


@pytest.mark.long
async def test_what_goes_on_in_the_background_after_the_deadline_is_seen(leaky: Leaky) -> None:
    told = await prove._wall_time(cast(Workspace, leaky))
    assert told.status == "failed"
    assert "left in the background" in told.seen


async def test_where_nothing_was_started_nothing_was_ended(tmp_path: Path) -> None:
    told = await prove._wall_time(cast(Workspace, Stuck(tmp_path)))
    assert told.status == "skipped"
