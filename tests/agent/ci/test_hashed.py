"""Digests that expressions ask for: made beside the loop, within a bound of time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent.ci import hashed
from agent.ci.expressions import Unknown
from agent.ci.expressions.hashing import hash_files
from agent.ci.expressions.scope import Files
from sandbox.base import Command, Workspace
from tests.agent.workbench import sandbox_with

MANY = 20_000
MAKE = f"""
import os
for at in range({MANY}):
    os.makedirs(f"data{{at % 20}}", exist_ok=True)
    with open(f"data{{at % 20}}/{{at}}.txt", "w") as file:
        file.write("x")
"""


@pytest.fixture
async def workspace(tmp_path: Path) -> AsyncIterator[Workspace]:
    async with sandbox_with(tmp_path, {"a.txt": "a", "b/c.txt": "c", "b/d.txt": "d"}) as sandbox:
        yield sandbox.base


async def asked(workspace: Workspace, *patterns: str) -> list[str | Unknown]:
    async def work(files: Files) -> list[str | Unknown]:
        return [files((pattern,)) for pattern in patterns]

    return await hashed.Hashed(workspace).met(work)


async def test_digests_are_those_of_github(workspace: Workspace) -> None:
    files = {"a.txt": b"a", "b/c.txt": b"c", "b/d.txt": b"d"}
    patterns = ("**", "b/*", "nothing")
    assert await asked(workspace, *patterns) == [hash_files((pattern,), files, workspace.root) for pattern in patterns]


async def test_what_takes_too_long_stays_unknown(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hashed, "SECONDS", 0.0)
    assert await asked(workspace, "**", "b/*") == [Unknown("hashFiles"), Unknown("hashFiles")]


async def test_a_repository_of_many_files_holds_nobody_up(workspace: Workspace) -> None:
    await workspace.run(Command((workspace.python, "-c", MAKE), timeout=60.0))
    assert len(await workspace.files()) > MANY
    patterns = [f"**/*{at}*/**/*{at}*" for at in range(10)]
    task, worst = asyncio.create_task(asked(workspace, *patterns)), 0.0
    while not task.done():
        started = time.monotonic()
        await asyncio.sleep(0.01)
        worst = max(worst, time.monotonic() - started)
    assert len(await task) == len(patterns)
    assert worst < 1.0
