"""A lab is prepared as by the engine; a real install from an index on loopback."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.bench.lab import Labs
from agent.ci.project.configuration import NO_CONFIGURATION
from agent.contract.verdicts import Verdict
from agent.source.archive import File
from sandbox.base import Limits
from sandbox.install.packages import PackageStore
from sandbox.process import ProcessSandboxes
from tests.sandbox.index import serving

TESTS = b"""
import unittest
class Tests(unittest.TestCase):
    def test_passes(self):
        pass
    def test_lacks_a_package(self):
        import nosuch_of_mine
"""


async def test_a_test_dependency_that_cannot_be_had_costs_only_its_tests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {
        "pyproject.toml": File(b'[dependency-groups]\ntest = ["nosuch-of-mine"]\n'),
        "test_it.py": File(TESTS),
    }
    with serving(tmp_path / "index") as index:
        monkeypatch.setenv("PIP_INDEX_URL", index.url)
        labs = Labs(ProcessSandboxes(tmp_path / "open", PackageStore(tmp_path / "packages", index.access)), Limits())
        async with labs.open(files, NO_CONFIGURATION) as lab:
            (run,) = await lab.runs({})
    assert {name.rpartition(".")[2]: verdict for name, verdict in run.verdicts.items()} == {
        "test_passes": Verdict.PASSED,
        "test_lacks_a_package": Verdict.SKIPPED,
    }
