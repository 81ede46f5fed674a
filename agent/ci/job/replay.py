"""Runs the steps of a job in one workspace, one after the other, up to the one that fails.

This is for jobs whose failing step only a run shows, or whose scripts need the output of earlier steps. The result is a check
like any other, reproduced later in fresh workspaces. State outside the workspace (files in `/tmp`, rows of a database) is lost
between steps that run alone; the traversal then runs them together.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace

from agent.checks.runner import Runner
from agent.ci.expressions import Value
from agent.ci.expressions.values import Files
from agent.ci.job.leg import Leg, Performed, TraversalResult
from agent.ci.job.traversal import advance, traverse
from agent.ci.project.asking import ask
from agent.ci.project.detection import Project
from agent.contract.verdicts import Check, CheckRun
from agent.guest.supervise import steps
from sandbox.base import MIB, LimitExceeded, Sandbox, Workspace

LEFT_LIMIT = 4 * MIB  # characters that the steps of a job may write to `GITHUB_ENV`, `GITHUB_OUTPUT` and `GITHUB_PATH`
Ran = Callable[[Check, CheckRun], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Replayer:
    """Replays jobs. `ran` is called after every step; `until` is a time of `time.monotonic()`."""

    sandbox: Sandbox
    runner: Runner
    ran: Ran
    until: float
    absent: tuple[str, ...] = ()  # as in `Check`

    async def replay(self, leg: Leg, project: Project, files: Files) -> TraversalResult:
        """Raises `SandboxError`."""
        traversal = traverse(leg, project, files, runs=True, until=self.until)
        async with self.sandbox.candidate() as workspace:
            replay, performed = Replay(self, workspace), None
            while not isinstance(request := await asyncio.to_thread(advance, traversal, performed), TraversalResult):
                performed = None if request is None else await replay.perform(*request)
                if request is None:
                    await ask(project.answers, self.sandbox)
            return request


class Replay:
    """One workspace, with the PATH entries that steps have added."""

    def __init__(self, replayer: Replayer, workspace: Workspace) -> None:
        self.replayer, self.workspace = replayer, workspace
        self.path: list[str] = []
        self.room = LEFT_LIMIT

    async def perform(self, check: Check, is_fresh: bool) -> Performed:
        """Raises `LimitExceeded` if the steps of a job export too much, and `SandboxError`."""
        check = replace(check, absent=self.replayer.absent)
        seconds = max(1.0, min(check.timeout, self.replayer.until - time.monotonic()))
        runner = self.replayer.runner
        if is_fresh:
            async with self.replayer.sandbox.candidate() as workspace:
                run, left = await runner.step(workspace, check, timeout=seconds)
        else:
            run, left = await runner.step(self.workspace, check, timeout=seconds, path=self.path)
        await self.replayer.ran(check, run)
        self.room -= sum(len(text) for text in left.values())
        if self.room < 0:
            raise LimitExceeded("output", LEFT_LIMIT)
        self.path = steps.paths(left.get("path", "")) + self.path
        outputs: Mapping[str, Value] = steps.values(left.get("output", ""))
        return Performed(run, outputs, steps.environment(left.get("env", "")))
