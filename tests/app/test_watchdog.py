"""A process whose loop hangs ends, by a signal to nobody else; one that is only busy goes on."""

from __future__ import annotations

import asyncio
import sys

from app import watchdog

PROGRAM = """
import asyncio, sys, time
from app import watchdog

watchdog.LOOKS, watchdog.SECONDS = 5, 0.1

async def main():
    with watchdog.ended_when_silent():
        {busy}
    print("done")

asyncio.run(main())
"""


async def ran(busy: str) -> tuple[int | None, str, str]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PROGRAM.format(busy=busy)), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await asyncio.wait_for(process.communicate(), 60)
    return process.returncode, out.decode(), err.decode()


async def test_a_loop_that_hangs_ends_the_process_and_says_where() -> None:
    code, out, err = await ran("sys.stderr = None; time.sleep(50)")
    assert code == watchdog.EXIT_CODE
    assert "done" not in out
    assert "in main" in err, "the trace of what hangs"


async def test_a_loop_that_answers_goes_on() -> None:
    code, out, _ = await ran("await asyncio.sleep(2)")
    assert (code, out.strip()) == (0, "done")
