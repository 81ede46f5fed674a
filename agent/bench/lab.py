"""The judge's own sandbox: runs tests and programs over a repository, apart from the sandbox in which it is healed.

`Benchmark` is what poses tasks and judges them in one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

from agent.bench.specimen import Files, NotPosed, Trial, packed
from agent.checks.runner import Runner
from agent.ci.plan import plan
from agent.ci.project.configuration import Configuration
from agent.contract.verdicts import Check, CheckRun
from sandbox.base import MIB, Command, Completed, Limits, Sandbox, Sandboxes, Workspace

Changes = Mapping[str, bytes | None]
"""File contents to put over the repository; None removes a file."""


@dataclass(frozen=True, slots=True)
class Lab:
    """One repository with its dependencies installed, and how its tests are run."""

    sandbox: Sandbox
    runner: Runner
    checks: tuple[Check, ...]

    async def runs(self, changes: Changes) -> tuple[CheckRun, ...]:
        """One run of each check in a fresh workspace. Raises `SandboxError`."""
        async with self._with(changes) as workspace:
            return tuple([await self.runner.run(workspace, check) for check in self.checks])

    async def program(self, changes: Changes, source: bytes, stdin: bytes, seconds: float) -> Completed:
        """Run a Python program beside the repository. Raises `SandboxError`."""
        program = await self.sandbox.provide("judge.py", source)
        async with self._with(changes) as workspace:
            argv = (workspace.python, program)
            return await workspace.run(Command(argv, seconds, stdin=stdin, output_limit=16 * MIB))

    @asynccontextmanager
    async def _with(self, changes: Changes) -> AsyncIterator[Workspace]:
        async with self.sandbox.candidate() as workspace:
            for path, content in changes.items():
                if content is None:
                    await workspace.remove(path)
                else:
                    await workspace.write(path, content)
            yield workspace


@dataclass(frozen=True, slots=True)
class Labs:
    """Opens labs."""

    sandboxes: Sandboxes
    limits: Limits

    @asynccontextmanager
    async def open(self, files: Files, configuration: Configuration) -> AsyncIterator[Lab]:
        """A lab of these files, prepared as the engine prepares them. Raises `SandboxError`, `NotPosed` without any check."""
        async with self.sandboxes.open("judge", self.limits) as sandbox:
            await sandbox.unpack(packed(files))
            planned = await plan(sandbox.base, configuration=configuration, sandbox=sandbox)
            if not planned.checks:
                raise NotPosed(planned.ending.reason)
            await sandbox.install(planned.packages)
            runner = Runner(sandbox)
            await runner.prepare()
            yield Lab(sandbox, runner, planned.checks)


class Benchmark(Protocol):
    """Tasks of one kind, and how their repairs are judged."""

    @property
    def name(self) -> str: ...

    @property
    def groups(self) -> Mapping[str, str]:
        """The ids in order, each with the group that it is counted in: a type of bug, a package."""

    @property
    def options(self) -> Mapping[str, str]:
        """What else decides the figures ("oracle": "half"): results under other options are not comparable."""

    def trial(self, id_: str, labs: Labs) -> AbstractAsyncContextManager[Trial]:
        """Pose one task. Raises `NotPosed`, `Skipped` and `SandboxError`."""
