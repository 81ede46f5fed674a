"""What a sandbox cannot have costs only the tests that need it; real installs from an index on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.case import Case, Prepared
from agent.checks.runner import Runner
from agent.contract.budget import Budget
from agent.contract.task import Policy
from agent.contract.verdicts import Verdict
from agent.preparing import prepare
from sandbox.install.packages import PackageStore
from sandbox.process import ProcessSandboxes
from tests.sandbox.conftest import tarball
from tests.sandbox.index import Index, serving

PYPROJECT = b"""
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "mine"
version = "1.0"
dependencies = []
[project.optional-dependencies]
test = ["answering", "nosuch-of-mine", "from-git @ git+https://git.invalid/from-git"]
"""


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    with serving(tmp_path / "index") as made:
        monkeypatch.setenv("PIP_INDEX_URL", made.url)
        yield made


async def test_a_test_dependency_that_cannot_be_had_and_an_absent_submodule_cost_only_their_tests(
    index: Index, tmp_path: Path
) -> None:
    index.add_wheel("answering")
    files = {
        "pyproject.toml": PYPROJECT,
        "backend.py": index.backend("mine", tmp_path / "executed", "Provides-Extra: test\\nRequires-Dist: answering; "
            "extra == 'test'\\nRequires-Dist: nosuch-of-mine; extra == 'test'\\n"
            "Requires-Dist: from-git @ git+https://git.invalid/from-git ; extra == 'test'\\n"),
        ".gitmodules": b'[submodule "data"]\n\tpath = vendor/data\n\turl = https://example.invalid/data.git\n',
        "test_it.py": b"""
import unittest
class Tests(unittest.TestCase):
    def test_has(self):
        import answering
        self.assertEqual(answering.answer, 42)
    def test_lacks_a_package(self):
        import nosuch_of_mine
    def test_lacks_a_package_from_git(self):
        import from_git
    def test_lacks_a_submodule(self):
        open("vendor/data/cases.txt")
    def test_lacks_something_else(self):
        open("cases.txt")
""",
    }  # fmt: skip

    async def emit(_: object) -> None:
        pass

    sandboxes = ProcessSandboxes(tmp_path / "open", PackageStore(tmp_path / "packages", index.access))
    async with sandboxes.open("case") as sandbox:
        case = Case("case", "sample", tarball(files))
        prepared = await prepare(case, sandbox, emit, policy=Policy(), budget=Budget())
        assert isinstance(prepared, Prepared), prepared
        (check,) = prepared.task.checks
        async with sandbox.candidate() as workspace:
            run = await Runner(sandbox).run(workspace, check)
    assert {name.rpartition(".")[2]: verdict for name, verdict in run.verdicts.items()} == {
        "test_has": Verdict.PASSED,
        "test_lacks_a_package": Verdict.SKIPPED,
        "test_lacks_a_package_from_git": Verdict.SKIPPED,
        "test_lacks_a_submodule": Verdict.SKIPPED,
        "test_lacks_something_else": Verdict.FAILED,
    }
    notes = "\n".join(prepared.task.approximated)
    assert "`nosuch-of-mine` cannot be installed here, so tests that import it are skipped: Because nosuch-of-mine was" in notes
    assert "the submodule vendor/data is not here" in notes
    assert prepared.task.packages.without == ("from-git", "nosuch-of-mine")
    assert "`from-git` is not from a package index" in notes
