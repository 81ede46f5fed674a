"""The rung where it works in earnest: the jail, with the tool as the repository's environment has it."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from agent.checks.oracle import oracle_of
from agent.checks.runner import Runner
from agent.contract.events import AnyEvent
from agent.contract.task import Policy
from agent.contract.verdicts import Check
from agent.proposer import Situation
from agent.proposers.tools.proposer import ToolsProposer
from sandbox.base import InstallFailed, Packages, Sandbox, SandboxUnavailable
from sandbox.install.package_index import configured
from sandbox.install.packages import PackageStore
from sandbox.local import LocalSandboxes

CHECKS = (Check("lint", "uv run ruff check .", "findings"), Check("tests", "pytest -q", "pytest"))
FILES = {
    "m.py": "import os\n\n\ndef f():\n    return Path('.').name or json.dumps(1)\n",
    "test_m.py": "from m import f\n\n\ndef test_f():\n    assert f() == '1'\n",
}


@pytest.fixture
async def sandbox(tmp_path: Path) -> AsyncIterator[Sandbox]:
    sandboxes = LocalSandboxes(tmp_path / "open", PackageStore(tmp_path / "wheels", await configured()))
    async with AsyncExitStack() as closing:
        try:
            opened = await closing.enter_async_context(sandboxes.open("tools"))
            for path, text in FILES.items():
                await opened.base.write(path, text.encode())
            await opened.install(Packages(requirements=("pytest", "ruff")))
        except (SandboxUnavailable, InstallFailed) as missing:
            pytest.skip(f"needs bubblewrap and a package index: {missing}")
        yield opened


@pytest.mark.long
async def test_linter_and_imports_together_make_lint_and_tests_green(sandbox: Sandbox) -> None:
    runner, runs = Runner(sandbox), []

    async def emit(event: AnyEvent) -> None:
        pass

    for check in CHECKS:
        async with sandbox.candidate() as workspace:
            runs.append(await runner.run(workspace, check))
    oracle = oracle_of(CHECKS, [tuple(runs)])
    assert oracle.must_turn["lint"]
    assert oracle.must_turn["tests"]
    situation = Situation(sandbox, runner, oracle, tuple(runs), (), Policy(), emit, 60.0)
    proposal = await ToolsProposer().propose(situation)
    (edit,) = proposal.candidates[0].edits
    assert edit.after == "import json\nfrom pathlib import Path\n\n\ndef f():\n    return Path('.').name or json.dumps(1)\n"


SLOPPY = "import sys, os\nx = {  'a':1 }\nprint(x, sys.argv)\n"
TOOLS = {
    "black": ("black --check .", 'import sys, os\n\nx = {"a": 1}\nprint(x, sys.argv)\n'),
    "isort": ("isort --check-only --diff .", "import os\nimport sys\n\nx = {  'a':1 }\nprint(x, sys.argv)\n"),
    "autoflake": ("autoflake --check -r --remove-all-unused-imports .", "import sys\nx = {  'a':1 }\nprint(x, sys.argv)\n"),
    "autopep8": ("autopep8 --diff --exit-code -r .", "import sys\nimport os\nx = {'a': 1}\nprint(x, sys.argv)\n"),
    "yapf": ("yapf --diff -r .", "import sys, os\n\nx = {'a': 1}\nprint(x, sys.argv)\n"),
}


@pytest.mark.optional(reason="needs the package index")
@pytest.mark.long
async def test_each_formatter_of_the_table_does_what_its_row_says(tmp_path: Path) -> None:
    async def emit(event: AnyEvent) -> None:
        pass

    sandboxes = LocalSandboxes(tmp_path / "open", PackageStore(tmp_path / "wheels", await configured()))
    async with AsyncExitStack() as closing:
        try:
            sandbox = await closing.enter_async_context(sandboxes.open("formatters"))
            for tool in TOOLS:
                await sandbox.base.write(f"{tool}/a.py", SLOPPY.encode())
            await sandbox.install(Packages(requirements=tuple(TOOLS)))
        except (SandboxUnavailable, InstallFailed) as missing:
            pytest.skip(f"needs bubblewrap and a package index: {missing}")
        runner = Runner(sandbox)
        for tool, (command, expected) in TOOLS.items():
            check = Check(tool, command, "findings", cwd=tool)
            async with sandbox.candidate() as workspace:
                run = await runner.run(workspace, check)
            oracle = oracle_of((check,), [(run,)])
            assert oracle.must_turn[tool], run
            proposal = await ToolsProposer().propose(Situation(sandbox, runner, oracle, (run,), (), Policy(), emit, 60.0))
            assert [edit.after for candidate in proposal.candidates for edit in candidate.edits] == [expected], proposal
