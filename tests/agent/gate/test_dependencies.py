"""A change of what the repository depends on is judged in an environment that has it."""

from __future__ import annotations

from pathlib import Path

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from agent.contract.blobs import MemoryBlobs
from agent.contract.outcome import NoRepair, Repair
from agent.contract.proposal import Edits, FileChange
from agent.contract.task import Policy, Task
from agent.contract.verdicts import Check
from agent.gate.gate import needs_install
from agent.graph import repair
from agent.state import Context
from sandbox.base import Packages
from tests.agent.workbench import Scripted
from tests.sandbox.conftest import make, tarball
from tests.sandbox.index import Index
from tests.sandbox.install.conftest import index

__all__ = ["index"]
REQUIREMENTS = "# what it needs\n"
FILES = {
    "requirements.txt": REQUIREMENTS.encode(),
    "answers.py": b"def answer():\n    import answering\n    return answering.answer\n",
    "check.py": b"import answers\nassert answers.answer() == 42\n",
}
CHECK = Check("step", "python check.py", "exit", timeout=60)
PACKAGES = Packages(requirement_files=("requirements.txt",))


def requiring(line: str) -> Edits:
    return (FileChange("requirements.txt", REQUIREMENTS, REQUIREMENTS + line),)


async def healed(index: Index, folder: Path, edits: Edits) -> Repair | NoRepair:
    async def emit(event: object) -> None: ...

    async with make("local", folder, index.access).open("repair") as sandbox:
        await sandbox.unpack(tarball(FILES))
        await sandbox.install(PACKAGES)
        context = Context(emit, (Scripted([(edits,)], rung="tools"),), None, MemoryBlobs(), InMemorySaver())
        result = await repair(Task("t1", sandbox, (CHECK,), Policy(), packages=PACKAGES), context)
    assert isinstance(result, Repair | NoRepair)
    return result


@pytest.mark.long
async def test_a_missing_dependency_is_installed_for_the_candidate_alone_and_proven(index: Index, tmp_path: Path) -> None:
    index.add_wheel("answering")
    result = await healed(index, tmp_path, requiring("answering\n"))
    assert isinstance(result, Repair), result
    assert result.evidence.checks[0].without_red == 1


@pytest.mark.long
async def test_a_dependency_that_cannot_be_had_is_no_repair_and_says_so(index: Index, tmp_path: Path) -> None:
    result = await healed(index, tmp_path, requiring("no-such-thing-here\n"))
    assert isinstance(result, NoRepair)
    assert "cannot be installed" in result.log.iterations[0].result


@pytest.mark.parametrize(
    ("path", "packages", "expected"),
    [
        ("requirements.txt", PACKAGES, True),
        ("requirements-base.txt", PACKAGES, True),
        ("pyproject.toml", Packages(projects=(".[test]",)), True),
        ("sub/setup.cfg", Packages(projects=("sub",)), True),
        ("pyproject.toml", Packages(groups=("dev",)), True),
        ("pyproject.toml", PACKAGES, False),
        ("other/pyproject.toml", Packages(projects=(".",)), False),
        ("answers.py", PACKAGES, False),
        ("Cargo.lock", Packages(crates=(".",)), True),
        ("sub/go.sum", Packages(go_modules=("sub",)), True),
        ("sub/Cargo.lock", Packages(crates=(".",)), False),
    ],
)
def test_only_files_that_name_what_is_installed_ask_for_an_environment(path: str, packages: Packages, expected: bool) -> None:
    assert needs_install((FileChange(path, "a\n", "b\n"),), packages) is expected
