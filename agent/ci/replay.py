"""Runs the steps of a job in one workspace, one after the other, up to the one that fails.

For jobs whose failing step only a run tells, or whose texts need what earlier steps print. What is found is a check like any
other: it is reproduced anew, in fresh workspaces, before anything is believed. What steps leave outside of the workspace (files
in `/tmp`, rows of a database) is gone when the next one is run by itself: whoever walks asks for them together then.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from agent.checks.runner import Runner
from agent.ci.expressions import Value
from agent.ci.expressions.scope import Files
from agent.ci.job.leg import Leg, Performed, Walked
from agent.ci.project.detection import Project
from agent.ci.walking import walk
from agent.contract.verdicts import Check, CheckRun
from agent.guest.supervise import steps as stepping
from sandbox.base import MIB, LimitExceeded, Sandbox, Workspace

LEFT_LIMIT = 4 * MIB  # characters that the steps of a job leave in `GITHUB_ENV`, `GITHUB_OUTPUT` and `GITHUB_PATH`
Ran = Callable[[Check, CheckRun], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Stage:
    """Where jobs are replayed. `ran` hears of every step as it is done; `until` is of `time.monotonic()`."""

    sandbox: Sandbox
    runner: Runner
    ran: Ran
    until: float

    async def replay(self, leg: Leg, project: Project, files: Files) -> Walked:
        """Raises `SandboxError`."""
        async with self.sandbox.candidate() as workspace:
            return await walk(leg, project, files, Play(self, workspace).perform, until=self.until)


class Play:
    """One workspace, and the PATH that grows on the way."""

    def __init__(self, stage: Stage, workspace: Workspace) -> None:
        self.stage, self.workspace = stage, workspace
        self.path: list[str] = []
        self.room = LEFT_LIMIT

    async def perform(self, check: Check, *, anew: bool) -> Performed:
        """Raises `LimitExceeded` where the steps of a job leave more than fits, and `SandboxError`."""
        seconds = max(1.0, min(check.timeout, self.stage.until - time.monotonic()))
        runner = self.stage.runner
        if anew:
            async with self.stage.sandbox.candidate() as fresh:
                run, left = await runner.step(fresh, check, timeout=seconds)
        else:
            run, left = await runner.step(self.workspace, check, timeout=seconds, path=self.path)
        await self.stage.ran(check, run)
        self.room -= sum(len(text) for text in left.values())
        if self.room < 0:
            raise LimitExceeded("output", LEFT_LIMIT)
        self.path = stepping.paths(left.get("path", "")) + self.path
        outputs: Mapping[str, Value] = stepping.values(left.get("output", ""))
        return Performed(run, outputs, stepping.environment(left.get("env", "")))
