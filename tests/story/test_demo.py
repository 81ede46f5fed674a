"""What a newcomer types first."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from asyncio.subprocess import Process
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


async def _started(*options: str) -> Process:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SELFHEAL_")}
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "deploy.demo", "--once", *options,
        cwd=ROOT, env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )  # fmt: skip


async def _until(process: Process, words: str) -> None:
    assert process.stdout is not None
    async for line in process.stdout:
        if words in line.decode():
            return
    raise AssertionError(f"the demo never said {words!r}")


async def _child(process: Process, command: str) -> int:
    """The child that runs this command. One that was just forked, or has ended, has no command line."""
    for _ in range(200):
        for child in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
            if Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")[-2:-1] == [command.encode()]:
                return int(child)
        await asyncio.sleep(0.05)
    raise AssertionError(f"the demo has no child that runs {command!r}")


async def _demo(*options: str) -> tuple[int, str]:
    process = await _started(*options)
    out, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode()


@pytest.mark.long
async def test_the_demo_opens_a_verified_pull_request() -> None:
    code, said = await _demo()
    assert code == 0, said
    assert "pull request #1" in said
    assert re.search(r"watch this attempt at http://127\.0\.0\.1:\d+/attempts/\w{32}", said)
    assert "+        if grams <= limit:" in said


@pytest.mark.long
async def test_the_hard_bug_without_a_model_ends_honestly() -> None:
    code, said = await _demo("--bug", "hard")
    assert code == 1, said
    assert "needs_test_change" in said
    assert "Selfheal found what broke the tests. A person must decide" in said
    assert "tests/test_weights.py" in said


@pytest.mark.parametrize("moment", ["a local GitHub is at", "its CI runs"])
@pytest.mark.long
async def test_an_interrupt_ends_the_demo_with_one_line(moment: str) -> None:
    process = await _started()
    await _until(process, moment)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to everything in the foreground
    out, _ = await process.communicate()
    assert process.returncode == 130, out.decode()
    assert re.fullmatch(r"( +[\d.]+ s  (?!stopped).*\n)* +[\d.]+ s  stopped\n", out.decode())


@pytest.mark.parametrize(("command", "name"), [("serve", "web"), ("worker", "worker")])
@pytest.mark.long
async def test_a_process_that_dies_ends_the_demo_with_its_log(command: str, name: str) -> None:
    process = await _started()
    await _until(process, "its CI runs")
    os.kill(await _child(process, command), signal.SIGKILL)
    out, _ = await process.communicate()
    assert process.returncode == 1, out.decode()
    assert f"the {name} process ended by itself with -9" in out.decode()
    assert f"last lines of {command}.log" in out.decode()
    assert "Traceback" not in out.decode()
