"""A process whose loop hangs ends, by a signal to nobody else; one that is only busy goes on."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from pathlib import Path
from subprocess import PIPE
from typing import IO

import pytest

PROGRAM = """
import asyncio, os, re, sys, time
from app.service import run as watchdog

watchdog.HUNG_SECONDS, watchdog.SIGN_SECONDS = 0.5, 0.1

def fill(descriptor):
    os.set_blocking(descriptor, False)
    try:
        while os.write(descriptor, b"x" * 4096):
            pass
    except BlockingIOError:
        os.set_blocking(descriptor, True)

async def main():
    with watchdog.exit_when_hung():
        {busy}
    {after}
    print("done")

asyncio.run(main())
"""


async def ran(busy: str, after: str = "", stderr: int | IO[bytes] = PIPE) -> tuple[int | None, str, str]:
    """Exit code, output, errors; a full pipe is emptied by nobody before the process has ended."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PROGRAM.format(busy=busy, after=after)), stdout=asyncio.subprocess.PIPE, stderr=stderr
    )
    try:
        out, err = await asyncio.wait_for(process.communicate(), 30)
    finally:
        if process.returncode is None:
            process.kill()
    return process.returncode, out.decode(), (err or b"").decode()


@pytest.mark.parametrize(
    "busy",
    [
        "sys.stderr = None; time.sleep(50)",
        "re.match(r'(a+)+$', 'a' * 60 + 'b')",  # holds the interpreter's lock for years
    ],
    ids=["asleep", "with the interpreter's lock"],
)
async def test_a_loop_that_hangs_ends_the_process_and_says_where(busy: str) -> None:
    code, out, err = await ran(busy)
    assert code == 1
    assert "done" not in out
    assert "in main" in err, "the trace of what hangs"


@pytest.mark.long
async def test_a_full_pipe_that_nobody_reads_ends_the_process_too() -> None:
    reading, writing = os.pipe()
    try:
        with open(writing, "wb") as pipe:
            code, out, _ = await ran("fill(2); os.write(2, b'one more line')", stderr=pipe)
        assert code == 1
        assert "done" not in out
    finally:
        os.close(reading)


@pytest.mark.long
async def test_the_trace_goes_to_the_end_of_a_file_too() -> None:
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log")
        log.write_text("before\n")
        with log.open("ab") as file:
            code, _, _ = await ran("time.sleep(50)", stderr=file)
        assert code == 1
        assert log.read_text().startswith("before\n")
        assert "in main" in log.read_text()


@pytest.mark.long
async def test_a_loop_that_answers_goes_on_and_is_not_watched_any_more_afterwards() -> None:
    code, out, _ = await ran("await asyncio.sleep(2)", after="time.sleep(1)")
    assert (code, out.strip()) == (0, "done")
