"""The whole rung on tiny repositories: real guest, real tools, real processes."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from agent.checks import Runner
from agent.edits import digest
from agent.events import AnyEvent
from agent.guard import refusal
from agent.oracle import oracle_of
from agent.proposers.base import Proposal, Situation
from agent.proposers.tools.proposer import ToolsProposer
from agent.task import Check, Policy, Repair
from sandbox.base import Sandbox
from tests.agent.bench import Bench, sandbox_with

Ask = Callable[..., Awaitable[tuple[Proposal, Situation]]]
LINT = Check("lint", "ruff check .", "findings", timeout=30)
FORMAT = Check("format", "ruff format --check .", "findings", timeout=30)
UNUSED = "import os\nimport sys\n\nprint(sys.argv)\n"


async def situation(sandbox: Sandbox, checks: tuple[Check, ...], policy: Policy = Policy()) -> Situation:
    runner = Runner(sandbox)

    async def emit(event: AnyEvent) -> None:
        pass

    runs = []
    for check in checks:
        async with sandbox.candidate() as workspace:
            runs.append(await runner.run(workspace, check))
    return Situation(sandbox, runner, oracle_of(checks, [tuple(runs)]), tuple(runs), (), policy, emit, 60.0)


@pytest.fixture
async def ask(tmp_path: Path) -> AsyncIterator[Ask]:
    async with AsyncExitStack() as closing:

        async def run(files: Mapping[str, str], *checks: Check, policy: Policy = Policy()) -> tuple[Proposal, Situation]:
            sandbox = await closing.enter_async_context(sandbox_with(tmp_path, files))
            case = await situation(sandbox, checks, policy)
            proposal = await ToolsProposer().propose(case)
            for path, text in files.items():
                assert await sandbox.base.read(path) == text.encode(), "the base is untouched"
            return proposal, case

        yield run


def afters(proposal: Proposal) -> list[dict[str, str | None]]:
    return [{edit.path: edit.after for edit in candidate.edits} for candidate in proposal.candidates]


async def test_a_linter_mends_what_it_finds(ask: Ask) -> None:
    proposal, case = await ask({"a.py": UNUSED, "b.py": "x=1\n"}, LINT)
    assert afters(proposal) == [{"a.py": "import sys\n\nprint(sys.argv)\n"}]
    assert proposal.candidates[0].title == "`ruff check --fix .` in a.py"
    assert proposal.plausible == 1
    again = await ToolsProposer().propose(replace(case, tried=frozenset(digest(c.edits) for c in proposal.candidates)))
    assert again.candidates == ()


async def test_what_a_tool_does_not_vouch_for_is_only_done_when_nothing_else_suffices(ask: Ask) -> None:
    unused_variable = "import os\n\n\ndef f():\n    x = 1\n    return 2\n"
    proposal, _ = await ask({"a.py": unused_variable}, LINT)
    assert afters(proposal) == [{"a.py": "\n\ndef f():\n    return 2\n"}]
    assert "--unsafe-fixes" in proposal.candidates[0].title


async def test_what_the_tool_cannot_mend_is_said(ask: Ask) -> None:
    proposal, _ = await ask({"a.py": "import os\n\nassert (1, 'always')\n"}, LINT)
    assert proposal.candidates == ()
    assert "mends a part only, 1 findings stay" in proposal.note


async def test_all_tools_of_all_red_checks_work_together(ask: Ask) -> None:
    files = {"a.py": "import os\nx  =  1\n", "test_b.py": "def test_b( ):\n    assert True\n"}
    proposal, case = await ask(files, LINT, FORMAT)
    assert afters(proposal) == [{"a.py": "x = 1\n", "test_b.py": "def test_b():\n    assert True\n"}]
    assert refusal(proposal.candidates[0], Policy(), case.oracle) is None, "a test may be formatted"


async def test_a_tool_that_changes_more_than_has_findings_is_cut(ask: Ask) -> None:
    command = "ruff format --check b.py > /dev/null || true\nruff format --check a.py"
    proposal, _ = await ask({"a.py": "x  =  1\n", "b.py": "y  =  1\n"}, Check("lint", command, "findings"))
    assert afters(proposal) == [{"a.py": "x = 1\n"}]


async def test_a_tool_that_is_not_installed_is_said_to_be_missing(ask: Ask) -> None:
    proposal, _ = await ask({"a.py": "x=1\n"}, Check("lint", "gofumpt -l . || exit 1", "exit"))
    assert proposal.candidates == ()
    assert "`gofumpt -w .` cannot be run here: it is not installed" in proposal.note


async def test_a_check_that_no_tool_mends_is_left_alone(ask: Ask) -> None:
    proposal, _ = await ask({"a.py": "x=1\n"}, Check("build", "exit 3", "exit"))
    assert (proposal.candidates, proposal.tried) == ((), 0)


async def test_a_red_linter_is_healed_by_the_graph_without_a_model(tmp_path: Path) -> None:
    result = await Bench(tmp_path).heal(ToolsProposer(), files={"a.py": UNUSED}, checks=(LINT,))
    assert isinstance(result, Repair)
    assert result.edits[0].after == "import sys\n\nprint(sys.argv)\n"
    assert [rung.rung for rung in result.log.rungs] == ["tools"]
