"""`selfheal fix` on a tiny repository, as a person runs it: a cold process, until its first candidate."""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from tests.bench.table import Figure, Say, spread

TURNS = 2
WORTH_TELLING = 0.05  # seconds
ROOT = Path(__file__).resolve().parents[2]
SHELF = "def in_stock(count, wanted):\n    # A full shelf may be emptied.\n    return wanted < count\n"
TESTS = """\
from shelf import in_stock


def test_less_than_there_is():
    assert in_stock(3, 2)


def test_all_there_is():
    assert in_stock(3, 3)
"""


async def measure(folder: Path, say: Say) -> list[Figure]:
    """The first turn warms the disk and is left out. Raises `RuntimeError` where no candidate came."""
    checkout = folder / "shop"
    checkout.mkdir()
    (checkout / "shelf.py").write_text(SHELF)
    (checkout / "test_shelf.py").write_text(TESTS)
    for command in (("init", "-q"), ("add", "."), ("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "Shelf")):
        await asyncio.to_thread(subprocess.run, ("git", *command), cwd=checkout, check=True, timeout=20)
    turns = [await _turn(checkout, folder) for _ in range(TURNS + 1)][1:]
    first = [next(at for at, line in turn if _is_candidate(line)) for turn in turns]
    middle = turns[first.index(statistics.median_low(first))]
    say(f"first candidate after {spread(first, 's', 1)}")
    steps, last = [], 0.0
    for at, line in middle:
        if at - last >= WORTH_TELLING:
            steps.append(Figure(f"  until “{line.partition(' s  ')[2][:50]}”", f"{at - last:.2f} s"))
        last = at
        if _is_candidate(line):
            break
    return [
        Figure("fix: cold until the first candidate", spread(first, "s", 1), "≤ 1.5 s", statistics.median(first) <= 1.5),
        *steps,
        Figure("fix: cold until the proven patch", spread([turn[-1][0] for turn in turns], "s", 1)),
    ]


def _is_candidate(line: str) -> bool:
    return "Proposed: " in line


async def _turn(checkout: Path, folder: Path) -> list[tuple[float, str]]:
    """What it said on standard error and when, and its end."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SELFHEAL_")}
    environment = {**kept, "SELFHEAL_MODEL": "none", "XDG_CACHE_HOME": str(folder / "cache")}
    began = time.monotonic()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "app", "fix", str(checkout),
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE, env=environment, cwd=ROOT,
    )  # fmt: skip
    assert process.stderr is not None
    try:
        said = [(time.monotonic() - began, line.decode().rstrip()) async for line in process.stderr]
        ended = await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
    if ended != 0:
        raise RuntimeError("fix found no repair:\n" + "\n".join(line for _, line in said))
    return [*said, (time.monotonic() - began, "done")]
