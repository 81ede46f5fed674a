"""Counts new findings of the repository's linter in a change. It only breaks ties; the oracle decides."""

from __future__ import annotations

from collections import Counter

from agent.checks.findings import read_findings
from agent.contract.proposal import Edits
from agent.edits.changes import apply
from sandbox.base import Command, DeadlinePassed, LimitExceeded, Sandbox, Workspace

LONGEST = 20.0  # seconds of one run
_LINTERS = (("ruff", "check", "--output-format=concise", "--no-cache"), ("flake8",), ("pyflakes",))


async def new_findings(sandbox: Sandbox, edits: Edits) -> int:
    """New findings in the Python files that the change touches; 0 if the repository has no linter.

    Raises `SandboxError` when the sandbox is lost.
    """
    paths = [edit.path for edit in edits if edit.path.endswith(".py") and edit.after is not None]
    if not paths:
        return 0
    try:
        async with sandbox.candidate() as workspace:
            before = await _findings(workspace, [edit.path for edit in edits if edit.path in paths and edit.before is not None])
            if before is None or await apply(workspace, edits) is not None:
                return 0
            after = await _findings(workspace, paths)
    except (DeadlinePassed, LimitExceeded):
        return 0
    return sum(((after or Counter()) - before).values())


async def _findings(workspace: Workspace, paths: list[str]) -> Counter[str] | None:
    """Findings of the first installed linter, by file and rule; None if there is none."""
    for linter in _LINTERS:
        argv = (workspace.python, "-m", *linter, *paths)
        done = await workspace.run(Command(argv, timeout=LONGEST))
        if b"No module named" not in done.stderr:
            found = read_findings(done.stdout.decode(errors="replace"), workspace.root, ".")
            return Counter(f"{finding.id.partition(': ')[0]} {finding.message.split(' ')[0]}" for finding in found)
    return None
