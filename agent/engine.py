"""The repair engine as this installation runs it: its sandboxes, its models, its limits.

Bot and CLI heal through `Engine.heal`, so both run the very same graph. Knows nothing of GitHub or of attempts in a database.
"""

from __future__ import annotations

import asyncio
import importlib
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from agent.blobs import Blobs, MemoryBlobs
from agent.case import Case
from agent.contract.budget import Budget
from agent.contract.events import Degraded, Emit, SandboxOpened
from agent.contract.memory import Memory
from agent.contract.outcome import NoRepair, Repair
from agent.models import tracing
from agent.question import Reply, Waiting
from agent.task import Policy
from sandbox.base import Housed, Limits, Sandbox, SandboxError, Sandboxes

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import BaseCheckpointSaver

    from agent.ci.plan import Plan
    from agent.extensions import Extensions
    from agent.models.router import Models
    from agent.preparing import Prepared, Uninstalled
    from agent.proposer import Proposer
    from agent.reproducing import Red
    from agent.state import Context

PREPARING = ("agent.reproducing", "app.preparing")  # what the first steps are made of


@dataclass(frozen=True, slots=True)
class Reproduction:
    """What a reproduction alone tells: what is red, or why nothing is; `prepared` unless it ended before anything ran."""

    result: Red | NoRepair
    prepared: Prepared | None
    planned: Plan | None = None  # what was understood, where it was not prepared

    @property
    def plan(self) -> Plan | None:
        return self.prepared.plan if self.prepared is not None else self.planned


@dataclass(frozen=True, slots=True)
class Engine:
    """Opens a sandbox for a case, prepares it, and repairs. Raises `SandboxError` where the infrastructure failed."""

    sandboxes: Sandboxes
    models: Models | None
    checkpointer: BaseCheckpointSaver[str] | None  # None: nothing outlasts a call
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
        async with _loading(*PREPARING, "agent.graph") as loading:
            if is_known := await self._is_known(case):
                await loading
                from agent.graph import standing

                known = await standing(case.id, self._context(case, blobs, emit, memory))
                if known is not None and not (isinstance(known, Waiting) and reply is not None and reply.answers(known)):
                    return known
            case, sandboxes = await self._housed(case, emit)
            async with self._opened(case, sandboxes, emit) as sandbox:
                await _load(*PREPARING)
                from agent.preparing import Uninstalled
                from agent.reproducing import begun

                prepared = await self._prepared(case, sandbox, emit)
                if isinstance(prepared, NoRepair):
                    return prepared
                if isinstance(prepared, Uninstalled):
                    return prepared.ended
                context = self._context(case, blobs, emit, memory)
                async with nullcontext() if is_known else begun(prepared.task, context) as first:
                    await loading
                    from agent.graph import repair

                    context = self._climbing(context)
                    if context.models is not None:
                        context.models.warm()
                    return await repair(prepared.task, context, reply, first)

    async def reproduce(self, case: Case, *, emit: Emit) -> Reproduction:
        """Only see whether it is really red."""
        async with _loading(*PREPARING) as loading:
            case, sandboxes = await self._housed(case, emit)
            async with self._opened(case, sandboxes, emit) as sandbox:
                await loading
                from agent.preparing import Uninstalled
                from agent.reproducing import Red, reproduced

                prepared = await self._prepared(case, sandbox, emit)
                if isinstance(prepared, NoRepair):
                    return Reproduction(prepared, None)
                if isinstance(prepared, Uninstalled):
                    return Reproduction(Red.of_one(prepared.check, prepared.run), None, prepared.plan)
                red = await reproduced(prepared.task, self._context(case, MemoryBlobs(), emit, None))
                return Reproduction(red, prepared)

    async def forget(self, case_id: str) -> None:
        """Drop the checkpoints of a case that nobody will fork any more; until then a repeated `heal` goes on from them."""
        if self.checkpointer is not None:
            await self.checkpointer.adelete_thread(case_id)

    async def _is_known(self, case: Case) -> bool:
        """Was it begun before?"""
        thread: RunnableConfig = {"configurable": {"thread_id": case.id}}
        return self.checkpointer is not None and await self.checkpointer.aget_tuple(thread) is not None

    async def _housed(self, case: Case, emit: Emit) -> tuple[Case, Sandboxes]:
        """The case in the image that its failed job runs in, where the sandbox has images and the operator allows this one.

        Raises `SandboxUnavailable`.
        """
        if not isinstance(self.sandboxes, Housed):
            return case, self.sandboxes
        from agent.ci.job.selection import image_of

        image = next((image for job in case.jobs if (image := image_of(job)) is not None), None)
        if image is None:
            return case, self.sandboxes
        if (sandboxes := self.sandboxes.with_image(image)) is None:
            why = f"the image {image[:200]!r} of the job is not among those that this installation allows (`sandbox_images`)"
            await emit(Degraded(text=f"{why}; the sandbox's own is used.", step="sandbox", why=why))
            return case, self.sandboxes
        return replace(case, image=image), sandboxes

    @asynccontextmanager
    async def _opened(self, case: Case, sandboxes: Sandboxes, emit: Emit) -> AsyncIterator[Sandbox]:
        """A sandbox for the block, told as an event also where there is none. Raises `SandboxUnavailable`."""
        kind, began = sandboxes.isolation.name, time.monotonic()
        async with AsyncExitStack() as house:
            try:
                with tracing.step("sandbox", case.id):
                    sandbox = await house.enter_async_context(sandboxes.open(case.label, self.limits))
            except SandboxError as error:
                took = time.monotonic() - began
                await emit(SandboxOpened(text="", sandbox=kind, seconds=took, error=type(error).__name__))
                raise
            await emit(SandboxOpened(text="", sandbox=kind, seconds=time.monotonic() - began))
            yield sandbox

    async def _prepared(self, case: Case, sandbox: Sandbox, emit: Emit) -> Prepared | Uninstalled | NoRepair:
        policy = self.extensions.allowed(self.policy) if self.extensions is not None else self.policy
        if unknown := set(case.configuration.rungs or ()) - set(policy.rungs):
            why = f"`rungs` names what is no rung here: {', '.join(sorted(unknown))}"
            await emit(Degraded(text=why, step="configuration", why=why))
        policy, budget = case.configuration.narrow(policy, self.budget)
        from agent.preparing import prepare

        with tracing.step("prepare", case.id):
            return await prepare(case, sandbox, emit, policy=policy, budget=budget)

    def _context(self, case: Case, blobs: Blobs, emit: Emit, memory: Memory | None) -> Context:
        """What every step is lent; whoever proposes comes with `_climbing`."""
        from agent.state import Context

        models = self.models
        if case.model is not None and self.models_named is not None:
            models = self.models_named(case.model)
        return Context(
            emit=emit,
            proposers=(),
            models=models,
            blobs=blobs,
            checkpointer=self.checkpointer,
            memory=memory,
            opinions=self.extensions.opinions if self.extensions is not None else (),
        )

    def _climbing(self, context: Context) -> Context:
        """With the ladder of those who propose."""
        from agent.proposers.model import model_rungs
        from agent.proposers.patterns.proposer import PatternsProposer
        from agent.proposers.tools.proposer import ToolsProposer

        ladder: tuple[Proposer, ...] = (ToolsProposer(), PatternsProposer(), *model_rungs(context.models))
        return replace(context, proposers=self.extensions.ladder(ladder) if self.extensions is not None else ladder)


@asynccontextmanager
async def _loading(*modules: str) -> AsyncIterator[asyncio.Task[None]]:
    """Import them beside the block, which waits for them where it needs them; one that ends without them does not wait."""
    task = asyncio.create_task(_load(*modules), name="loading")
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _load(*modules: str) -> None:
    """Import them, one after the other, or wait until somebody has. It takes seconds, LangGraph most of them, so it goes beside
    the opening of sandboxes and the first runs of tests; commands that never repair start without them."""
    for module in modules:
        await asyncio.to_thread(importlib.import_module, module)
