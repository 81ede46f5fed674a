"""What tests of the engine share: a small broken sample, rungs that follow a script, and one repair's whole surroundings."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from langgraph.checkpoint.memory import InMemorySaver

from agent.contract import events
from agent.contract.blobs import MemoryBlobs
from agent.contract.budget import Budget
from agent.contract.last_good import History, LastGood
from agent.contract.outcome import NoRepair, Repair
from agent.contract.proposal import Candidate, Edits, FileChange
from agent.contract.task import Policy, Task
from agent.contract.verdicts import Check
from agent.graph import repair
from agent.models.router import Models
from agent.proposer import Proposal, Proposer, Situation
from agent.state import Context, Opinion
from sandbox.base import Sandbox
from sandbox.install.package_index import IndexAccess
from sandbox.install.packages import PackageStore
from sandbox.process import ProcessSandboxes

E = TypeVar("E")
CALC = "def add(a, b):\n    return a - b\n\n\ndef double(a):\n    return a * 2\n"
TESTS = """\
from calc import add, double

def test_add():
    assert add(2, 3) == 5

def test_add_nothing():
    assert add(2, 0) == 2

def test_double():
    assert double(4) == 8
"""
SAMPLE = {"calc.py": CALC, "test_calc.py": TESTS}
PYTEST = Check(
    "tests",
    f"{sys.executable} -m pytest -q -p no:cacheprovider",
    "pytest",
    timeout=30,
    env={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
)


class FileBlobs(MemoryBlobs):
    """Blobs that another process finds."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder

    async def put(self, content: bytes) -> str:
        name = await super().put(content)
        self._folder.mkdir(exist_ok=True)
        (self._folder / name).write_bytes(content)
        return name

    async def get(self, name: str) -> bytes:
        return (self._folder / name).read_bytes()


@dataclass
class Scripted:
    """A rung that proposes what it is told to, a round after the other."""

    rounds: list[tuple[Edits, ...]]
    rung: str = "patterns"
    note: str = "searched"
    title: str = ""
    seen: list[Situation] = field(default_factory=list)

    def can_help(self, situation: Situation) -> str | None:
        return None

    async def propose(self, situation: Situation) -> Proposal:
        self.seen.append(situation)
        now = self.rounds.pop(0) if self.rounds else ()
        made = tuple(Candidate(self.rung, edits, self.title or f"changes {edits[0].path}") for edits in now)
        return Proposal(made, len(made), len(made), note=self.note, exhausted=not self.rounds)


def change(before: str, after: str, path: str = "calc.py", source: str = CALC) -> Edits:
    assert before in source
    return (FileChange(path, source, source.replace(before, after, 1)),)


RIGHT = change("a - b", "a + b")
WRONG = change("a - b", "a * b")


class Bench:
    """Everything one repair needs, and what it told."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.events: list[events.AnyEvent] = []
        self.blobs, self.saver = MemoryBlobs(), InMemorySaver()

    async def emit(self, event: events.AnyEvent) -> None:
        self.events.append(event)

    async def heal(
        self,
        *proposers: Proposer,
        files: Mapping[str, str] = SAMPLE,
        checks: tuple[Check, ...] = (PYTEST,),
        policy: Policy = Policy(),
        budget: Budget = Budget(),
        models: Models | None = None,
        opinions: tuple[Opinion, ...] = (),
        good: tuple[LastGood, ...] = (),
        reported_ids: tuple[str, ...] = (),
        history: History | None = None,
    ) -> Repair | NoRepair:
        async with sandbox_with(self.folder, files) as sandbox:
            task = Task("t1", sandbox, checks, policy, budget, environment="this machine", good=good, reported_ids=reported_ids)
            task = replace(task, history=history)
            context = Context(self.emit, proposers, models, self.blobs, self.saver, opinions=opinions)
            result = await repair(task, context)
            for path, text in files.items():
                assert await sandbox.base.read(path) == text.encode(), "the base was touched"
            return result

    def steps(self) -> list[str]:
        return [event.step for event in self.events if isinstance(event, events.StepStarted)]

    def of(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]


@asynccontextmanager
async def sandbox_with(folder: Path, files: Mapping[str, str]) -> AsyncIterator[Sandbox]:
    """A process sandbox with these files; our own interpreter runs them, so that nothing has to be installed."""
    sandboxes = ProcessSandboxes(folder / "sandboxes", PackageStore(folder / "wheels", IndexAccess((), frozenset())))
    async with sandboxes.open("repair") as sandbox:
        sandbox.python = sys.executable
        for path, text in files.items():
            await sandbox.base.write(path, text.encode())
        yield sandbox
