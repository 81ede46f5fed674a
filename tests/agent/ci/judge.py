"""GitHub's own reading of workflow files and expressions, from npm: the judge that ours is held against.

`tests/judges/actions` locks the packages; they are installed beside the lock, into a folder that git ignores.
"""

from __future__ import annotations

import fcntl
import json
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "judges" / "actions"


class JudgeMissing(Exception):
    """The judge cannot be had here; the message says why."""


@cache
def installed() -> Path:
    """The folder with the judge's scripts, its packages installed. Raises `JudgeMissing`."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        raise JudgeMissing("node and npm are not installed")
    lock = FOLDER / "package-lock.json"
    done = FOLDER / "node_modules" / ".installed"
    with (FOLDER / "package.json").open() as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)  # test processes beside each other install once
        if not done.exists() or done.read_text() != lock.read_text():
            ran = subprocess.run(
                ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"],
                cwd=FOLDER,
                capture_output=True,
                text=True,
                timeout=240,
            )
            if ran.returncode != 0:
                raise JudgeMissing(f"npm could not install it: {ran.stderr.strip()[-300:]}")
            done.write_text(lock.read_text())
    return FOLDER


def ask(script: str, questions: Any) -> Any:
    """The answers of one of the judge's scripts; skips the test where there is no judge."""
    try:
        folder = installed()
    except JudgeMissing as missing:
        pytest.skip(f"GitHub's own parser is not there: {missing}")
    ran = subprocess.run(["node", script], cwd=folder, input=json.dumps(questions), capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr[-2000:]
    return json.loads(ran.stdout)
