"""Runs of small repositories are remembered within a process, for tests whose subject is the flow around the runs.

A run is real the first time. The same files under the same check give the same verdicts, unless the code looks beyond itself:
such code, and what did not finish, is run every time.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest

from agent.checks.runner import Runner
from agent.contract.verdicts import Check, VerdictId
from sandbox.base import Workspace

BEYOND_ITSELF = (b"import ", b"__import__", b"open(", b"eval(", b"exec(")
IMPORT = re.compile(rb"^(?:from (\w*)[\w.]* import |import (\w+)$)", re.M)
_RANS: dict[object, Any] = {}
_ANSWERS: dict[object, Any] = {}
_step, _ask = Runner.step, Runner.ask


@pytest.fixture
def remembered_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Runner, "step", step)
    monkeypatch.setattr(Runner, "ask", ask)


async def step(
    self: Runner,
    workspace: Workspace,
    check: Check,
    *,
    only: frozenset[VerdictId] | None = None,
    timeout: float | None = None,
    path: Sequence[str] = (),
) -> Any:
    async def run() -> Any:
        return await _step(self, workspace, check, only=only, timeout=timeout, path=path)

    files = await _closed(workspace)
    if files is None or check.before or check.services:
        return await run()
    key = (files, repr(check), None if only is None else frozenset(only), tuple(path))
    if key not in _RANS:
        ran = await run()
        if ran.run.ending != "finished":
            return ran
        _RANS[key] = ran
    return _RANS[key]


async def ask(
    self: Runner, workspace: Workspace, question: str, stdin: bytes, seconds: float, *, check: Check | None = None
) -> Any:
    files = await _closed(workspace)
    if files is None:
        return await _ask(self, workspace, question, stdin, seconds, check=check)
    key: Any = (files, question, stdin.replace(workspace.root.encode(), b""), repr(check))
    if key not in _ANSWERS:
        asked = await _ask(self, workspace, question, stdin, seconds, check=check)
        if asked.problem:
            return asked
        _ANSWERS[key] = asked
    return _ANSWERS[key]


async def _closed(workspace: Workspace) -> tuple[tuple[str, bytes, bool], ...] | None:
    """The files that a run can read, where none of them looks beyond them."""
    files = [
        (entry.path, await workspace.read(entry.path), entry.executable)
        for entry in await workspace.files()
        if "__pycache__" not in entry.path and not entry.link and not entry.path.startswith(".github/")
    ]
    own = {path.partition("/")[0].removesuffix(".py").encode() for path, _, _ in files} | {b"pytest", b"unittest", b""}
    for _, content, _ in files:
        rest = IMPORT.sub(lambda found: b"" if (found[1] or found[2] or b"") in own else found[0], content)
        if any(word in rest for word in BEYOND_ITSELF):
            return None
    return tuple(sorted(files))
