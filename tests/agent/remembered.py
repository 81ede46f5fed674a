"""Runs of small repositories are remembered while pytest runs, for tests whose subject is the flow around the runs.

A run is real the first time, in whichever worker of pytest needs it first. The same files under the same check give the same
verdicts, unless the code looks beyond itself: such code, and what did not finish, is run every time.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agent.checks.runner import Runner
from agent.contract.verdicts import Check, VerdictId
from sandbox.base import Workspace

BEYOND_ITSELF = (b"import ", b"__import__", b"open(", b"eval(", b"exec(")
IMPORT = re.compile(rb"^(?:from (\w*)[\w.]* import |import (\w+)$)", re.M)
_step, _ask = Runner.step, Runner.ask


class Results:
    """Results by what they depend on: in this process, and in files for the other workers."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[str, Any] = {}

    def get(self, key: object) -> Any:
        """None for a result that nobody has kept."""
        name = _name(key)
        if name not in self._known and (file := self._folder / name).exists():
            self._known[name] = pickle.loads(file.read_bytes())
        return self._known.get(name)

    def keep(self, key: object, result: Any) -> None:
        name = _name(key)
        self._known[name] = result
        mine = self._folder / f"{name}.{os.getpid()}"
        mine.write_bytes(pickle.dumps(result))
        mine.rename(self._folder / name)  # complete for whoever reads it


def _name(key: object) -> str:
    return hashlib.sha256(repr(key).encode()).hexdigest()


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "remembered"
    folder.mkdir(exist_ok=True)
    return Results(folder)


@pytest.fixture
def remembered_runs(monkeypatch: pytest.MonkeyPatch, results: Results) -> None:
    monkeypatch.setattr(Runner, "step", step_with(results))
    monkeypatch.setattr(Runner, "ask", ask_with(results))


def step_with(results: Results) -> Any:
    async def step(
        self: Runner,
        workspace: Workspace,
        check: Check,
        *,
        only: frozenset[VerdictId] | None = None,
        timeout: float | None = None,
        path: Sequence[str] = (),
    ) -> Any:
        files = await _closed(workspace)
        if files is None or check.before or check.services:
            return await _step(self, workspace, check, only=only, timeout=timeout, path=path)
        key = (files, check, None if only is None else sorted(map(repr, only)), tuple(path))
        ran = results.get(key)
        if ran is None:
            ran = await _step(self, workspace, check, only=only, timeout=timeout, path=path)
            if ran.run.ending == "finished":
                results.keep(key, ran)
        return ran

    return step


def ask_with(results: Results) -> Any:
    async def ask(
        self: Runner, workspace: Workspace, question: str, stdin: bytes, seconds: float, *, check: Check | None = None
    ) -> Any:
        files = await _closed(workspace)
        if files is None:
            return await _ask(self, workspace, question, stdin, seconds, check=check)
        key = (files, question, stdin.replace(workspace.root.encode(), b""), check)
        asked = results.get(key)
        if asked is None:
            asked = await _ask(self, workspace, question, stdin, seconds, check=check)
            if not asked.problem:
                results.keep(key, asked)
        return asked

    return ask


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
