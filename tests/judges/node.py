"""Judges that others wrote, in Node: the folders beside this file name them, npm installs them.

What npm brings is kept in the person's cache folder, once for each lock file.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest
from platformdirs import user_cache_path

_LISTS = ("package.json", "package-lock.json")


class JudgeMissing(Exception):
    """node, npm or what npm should bring is not to be had here; the message says which."""


class Judge:
    """The judge in the folder `name`: its scripts, and the packages that they use."""

    def __init__(self, name: str) -> None:
        """Raises `JudgeMissing`."""
        self._scripts = Path(__file__).parent / name
        self.folder = _installed(self._scripts)

    def answer(self, script: str, question: object) -> Any:
        """What the script of this name prints on its last line, as JSON, when it is given `question` as JSON."""
        done = subprocess.run(
            ["node", "--input-type=module", "--eval", (self._scripts / script).read_text()],
            cwd=self.folder,
            input=json.dumps(question),
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        return json.loads(done.stdout.rpartition("\n")[2])


def judge_or_skip(name: str) -> Judge:
    """Skips the test where node or npm is missing."""
    try:
        return Judge(name)
    except JudgeMissing as missing:
        pytest.skip(str(missing))


def _installed(lists: Path) -> Path:
    """The folder with the packages of the lock file. Raises `JudgeMissing`."""
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            raise JudgeMissing(f"{program} is not installed")
    digest = hashlib.sha256(b"".join((lists / name).read_bytes() for name in _LISTS)).hexdigest()[:16]
    kept = user_cache_path("selfheal-tests") / f"{lists.name}-judge-{digest}"
    if kept.is_dir():
        return kept
    kept.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f"{lists.name}-judge-", dir=kept.parent))
    try:
        for name in _LISTS:
            shutil.copy(lists / name, draft)
        done = subprocess.run(
            ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=draft, capture_output=True, text=True, timeout=180
        )
        if done.returncode != 0:
            raise JudgeMissing(f"npm could not bring the packages of {lists.name}: {done.stderr.strip()[-300:]}")
        try:
            draft.rename(kept)  # whole, or not at all
        except OSError:
            if not kept.is_dir():  # else another process was quicker
                raise
    except subprocess.TimeoutExpired:
        raise JudgeMissing(f"npm could not bring the packages of {lists.name} in time") from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return kept
