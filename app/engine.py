"""The repair engine as this installation runs it: its sandboxes, its models, its limits.

Bot and CLI heal through `Engine.heal`, so both run the very same graph. Knows nothing of GitHub or of attempts in a database.
"""

from __future__ import annotations

import asyncio
import importlib
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.blobs import Blobs
from agent.ci.configuration import NO_CONFIGURATION, Configuration
from agent.ci.plan import FailedJob, Plan, plan
from agent.events import Degraded, Emit, StepDone, StepStarted
from agent.memory import Memory
from agent.task import Budget, NoRepair, Outcome, Policy, ReflectionLog, Repair, Reply, Task, Usage, Waiting
from sandbox.base import Installed, InstallFailed, LimitExceeded, Limits, Sandbox, Sandboxes, UnsafeArchive

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver

    from agent.extensions import Extensions
    from agent.models import Models
    from agent.proposers.base import Proposer
    from agent.state import Context


@dataclass(frozen=True, slots=True)
class Case:
    """What is to be healed: one commit's files, and what is known of its failure."""

    id: str  # names the thread of checkpoints
    label: str  # for people
    archive: AsyncIterator[bytes]  # gzipped tar with one top folder
    jobs: tuple[FailedJob, ...] = ()
    configuration: Configuration = NO_CONFIGURATION
    command: str | None = None  # a person's own test command
    hints: tuple[str, ...] = ()
    model: str | None = None  # LiteLLM name of the one that a person chose; None is the installation's


@dataclass(frozen=True, slots=True)
class Engine:
    """Opens a sandbox for a case, prepares it, and repairs. Raises `SandboxError` where the infrastructure failed."""

    sandboxes: Sandboxes
    models: Models | None
    checkpointer: BaseCheckpointSaver[str]
    budget: Budget
    limits: Limits
    policy: Policy = Policy()
    extensions: Extensions | None = None
    models_named: Callable[[str], Models] | None = None  # for a case whose model a person chose

    async def heal(
        self, case: Case, *, blobs: Blobs, emit: Emit, reply: Reply | None = None, memory: Memory | None = None
    ) -> Repair | NoRepair | Waiting:
        """Take one case from its files to a repair, the reason why there is none, or a question to a person.

        `reply` answers the question that the case waits with; `memory` is that of its repository. A case that the graph has
        finished, or that waits for a `reply`, gets the same answer again, without a sandbox.
        """
        # Seconds of imports, beside the installer; commands that never repair start without them.
        loading = asyncio.create_task(asyncio.to_thread(importlib.import_module, "agent.graph"))
        if await self.checkpointer.aget_tuple({"configurable": {"thread_id": case.id}}) is not None:
            await loading
            from agent.graph import standing

            known = await standing(case.id, self._context(case, blobs, emit, memory))
            if known is not None and not (isinstance(known, Waiting) and reply is not None and reply.answers(known)):
                return known
        async with self.sandboxes.open(case.label, self.limits) as sandbox:
            prepared = await self._prepare(case, sandbox, emit)
            if isinstance(prepared, NoRepair):
                return prepared
            await loading
            from agent.graph import repair

            context = self._context(case, blobs, emit, memory)
            if context.models is not None:
                context.models.warm()
            return await repair(prepared, context, reply)

    async def forget(self, case_id: str) -> None:
        """Drop the checkpoints of a case that nobody will fork any more; until then a repeated `heal` goes on from them."""
        await self.checkpointer.adelete_thread(case_id)

    async def _prepare(self, case: Case, sandbox: Sandbox, emit: Emit) -> Task | NoRepair:
        """Unpack, read what is to be run, install: everything that comes before the first red."""
        policy = self.extensions.allowed(self.policy) if self.extensions is not None else self.policy
        if unknown := set(case.configuration.rungs or ()) - set(policy.rungs):
            why = f"`rungs` names what is no rung here: {', '.join(sorted(unknown))}"
            await emit(Degraded(text=why, step="configuration", why=why))
        policy, budget = case.configuration.narrow(policy, self.budget)
        started = time.monotonic()
        await emit(StepStarted(step="unpack", text="Unpacking the repository"))
        try:
            await sandbox.unpack(case.archive)
        except UnsafeArchive as error:
            return without_a_run(
                Outcome.REFUSED,
                f"The repository's archive is not one that is safe to unpack: {error.reason}.",
                "Remove what leads outside of the repository (a link, a path) from this commit, then try again.",
            )
        planned = await plan(sandbox.base, jobs=case.jobs, configuration=case.configuration, command=case.command)
        await emit(StepDone(step="unpack", text=_understood(planned), seconds=time.monotonic() - started))
        if not planned.checks:
            return without_a_run(Outcome.NOTHING_FAILED, planned.reason, planned.next_step)
        started = time.monotonic()
        await emit(StepStarted(step="install", text="Installing the dependencies"))
        try:
            installed = await sandbox.install(planned.packages)
        except InstallFailed as error:
            return without_a_run(
                Outcome.INFRASTRUCTURE,
                f"The dependencies could not be installed: {error.reason}.",
                "Look at the installer's words in the log; if the index was out of reach, try again later.",
                error.output[-2000:],
            )
        except LimitExceeded as error:
            return without_a_run(
                Outcome.INFRASTRUCTURE,
                f"Preparing the repository reached the sandbox's {error.which} limit ({error.limit}).",
                "Raise the sandbox's limits in the settings, or make the repository's checkout smaller.",
            )
        await emit(StepDone(step="install", text=_installed(installed), seconds=time.monotonic() - started))
        isolation = sandbox.isolation
        return Task(
            id=case.id,
            sandbox=sandbox,
            checks=planned.checks,
            policy=policy,
            budget=budget,
            hints=(*planned.notes, *case.hints),
            environment=f"Python {installed.python}, sandbox {isolation.name}, "
            f"{'no network' if isolation.untrusted else 'with the network and the files of its user'}",
            packages=planned.packages,
        )

    def _context(self, case: Case, blobs: Blobs, emit: Emit, memory: Memory | None) -> Context:
        from agent.proposers.model import model_rungs
        from agent.proposers.patterns.proposer import PatternsProposer
        from agent.proposers.tools.proposer import ToolsProposer
        from agent.state import Context

        models = self.models
        if case.model is not None and self.models_named is not None:
            models = self.models_named(case.model)
        ladder: tuple[Proposer, ...] = (ToolsProposer(), PatternsProposer(), *model_rungs(models))
        return Context(
            emit=emit,
            proposers=self.extensions.ladder(ladder) if self.extensions is not None else ladder,
            models=models,
            blobs=blobs,
            checkpointer=self.checkpointer,
            memory=memory,
            opinions=self.extensions.opinions if self.extensions is not None else (),
        )


def _understood(planned: Plan) -> str:
    if not planned.checks:
        return planned.reason
    return "Will run " + ", ".join(f"`{check.command.strip().splitlines()[0]}` ({check.source})" for check in planned.checks)


def _installed(installed: Installed) -> str:
    built = f", built {', '.join(installed.built)}" if installed.built else ""
    return f"Python {installed.python} is ready{built}" + (f". {installed.note}" if installed.note else "")


def without_a_run(outcome: Outcome, reason: str, next_step: str, *notes: str) -> NoRepair:
    """An ending from before the graph began: nothing was tried, nothing was spent."""
    log = ReflectionLog(diagnosis=None, iterations=(), lessons=(), rungs=(), notes=notes)
    return NoRepair(outcome=outcome, reason=reason, next_step=next_step, usage=Usage(), log=log)
