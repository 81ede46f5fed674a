"""Attempts of one repository share what is downloaded: the same lock file asks the index for nothing again."""

from __future__ import annotations

from pathlib import Path

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from agent.case import Case
from agent.ci.job.selection import FailedJob
from agent.contract.budget import Budget
from agent.contract.events import AnyEvent
from agent.contract.outcome import ConfirmedFailure
from agent.engine import Engine
from sandbox.base import Limits
from tests.sandbox.conftest import make, tarball
from tests.sandbox.index import serving

WORKFLOW = """\
on: push
jobs:
  tests:
    runs-on: ubuntu-latest
    steps:
      - run: pip install -r requirements.txt
      - run: python -m unittest
"""
TEST = """\
import unittest
from {package} import answer

class Tests(unittest.TestCase):
    def test_answer(self):
        self.assertEqual(answer, {wanted})
"""


@pytest.mark.long
async def test_a_second_attempt_with_the_same_lock_file_downloads_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_RETRIES", "0")
    with serving(tmp_path / "index") as index:
        monkeypatch.setenv("PIP_INDEX_URL", index.url)
        for package in ("answering", "replying"):
            index.add_wheel(package)
        engine = Engine(make("local", tmp_path, index.access), None, InMemorySaver(), Budget(seconds=120.0), Limits())

        async def asked(package: str, wanted: int) -> int:
            """How many requests one attempt makes of the index."""
            before = len(index.requests)
            files = {"requirements.txt": f"{package}==1.0\n", "test_a.py": TEST.format(package=package, wanted=wanted)}
            archive = tarball({path: text.encode() for path, text in files.items()})
            job = FailedJob("tests", WORKFLOW, ".github/workflows/ci.yml", "Run python -m unittest")
            seen = await engine.reproduce(Case("one", "one", archive, jobs=(job,)), emit=_nobody)
            assert isinstance(seen.result, ConfirmedFailure), seen.result
            assert seen.result.failing == ("test_a.Tests.test_answer",)
            return len(index.requests) - before

        assert await asked("answering", 41) > 0
        assert await asked("answering", 40) == 0
        assert await asked("replying", 41) > 0


async def _nobody(_event: AnyEvent) -> None: ...
