"""What a newcomer types first."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


async def _demo(*options: str) -> tuple[int, str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SELFHEAL_")}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "deploy.demo", "--once", *options,
        cwd=ROOT, env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    out, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode()


async def test_the_demo_opens_a_verified_pull_request() -> None:
    code, said = await _demo()
    assert code == 0, said
    assert "pull request #1" in said
    assert re.search(r"watch this attempt at http://127\.0\.0\.1:\d+/attempts/\w{32}", said)
    assert "+        if grams <= limit:" in said


async def test_the_hard_bug_without_a_model_ends_honestly() -> None:
    code, said = await _demo("--bug", "hard")
    assert code == 1, said
    assert "gave_up" in said
    assert "tests/test_weights.py" in said
