"""The repair engine with this installation's sandboxes, models and limits.

The bot and the CLI both call `Engine.heal`, so both run the same graph. Knows nothing about GitHub or the database.
"""

from __future__ import annotations

import asyncio
import importlib
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from agent.case import Case, Prepared, Uninstalled
from agent.contract.blobs import Blobs, MemoryBlobs
from agent.contract.budget import Budget
from agent.contract.events import Degraded, Emit, SandboxOpened
from agent.contract.memory import Memory
from agent.contract.outcome import ConfirmedFailure, NoRepair, Repair
from agent.contract.proposal import Candidate, Edits, rung_kind
from agent.contract.question import Reply, Waiting
from agent.contract.task import Policy
from agent.models import tracing
from agent.proposers.given import Given
from sandbox.base import ImageSandboxes, Limits, Sandbox, SandboxError, Sandboxes

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import BaseCheckpointSaver

    from agent.ci.plan import Plan
    from agent.extensions import Extensions
    from agent.models.router import Models
    from agent.proposer import Proposer
    from agent.state import Context


@dataclass(frozen=True, slots=True)
class Reproduction:
    """The confirmed failure, or why there is none. `prepared` is None if it ended before anything ran."""

    result: ConfirmedFailure | NoRepair
    prepared: Prepared | None
    planned: Plan | None = None  # the plan, if `prepared` is None

    @property
    def plan(self) -> Plan | None:
        return self.prepared.plan if self.prepared is not None else self.planned


@dataclass(frozen=True, slots=True)
class Engine:
    """Opens a sandbox for a case, prepares it, and repairs. Raises `SandboxError` if the infrastructure fails."""

    sandboxes: Sandboxes
    models: Models | None
    checkpointer: BaseCheckpointSaver[str] | None  # None: nothing is kept after a call
    budget: Budget
    limits: Limits
    policy: Policy = Policy()
    extensions: Extensions | None = None
    models_named: Callable[[str], Models] | None = None  # for a case whose model the user chose
    ladder: Callable[[Models | None], tuple[Proposer, ...]] | None = None  # None: the built-in one

    async def heal(
        self, case: Case, *, blobs: Blobs, emit: Emit, reply: Reply | None = None, memory: Memory | None = None
    ) -> Repair | NoRepair | Waiting:
        """Take one case from its files to a repair, the reason why there is none, or a question to a person.

        `reply` answers the question that the case waits for; `memory` belongs to its repository. If the graph has already
        finished the case, or waits for a `reply` that is not given, the stored result is returned without opening a sandbox.
        """
        async with _loading("agent.preparing", "agent.graph", "agent.proposers.ladder") as loading:
            thread: RunnableConfig = {"configurable": {"thread_id": case.id}}
            if self.checkpointer is not None and await self.checkpointer.aget_tuple(thread) is not None:
                await loading
                from agent.graph import standing

                known = await standing(case.id, self._context(case, blobs, emit, memory))
                if known is not None and not (isinstance(known, Waiting) and reply is not None and reply.answers(known)):
                    return known
            async with self._prepared(case, emit) as prepared:
                if isinstance(prepared, NoRepair):
                    return prepared
                if isinstance(prepared, Uninstalled):
                    return prepared.ended
                await loading
                from agent.graph import repair
                from agent.proposers.ladder import built_in_ladder

                context = self._context(case, blobs, emit, memory)
                ladder = (self.ladder or built_in_ladder)(context.models)
                ladder = self.extensions.ladder(ladder) if self.extensions is not None else ladder
                if context.models is not None:
                    context.models.warm()
                return await repair(prepared.task, replace(context, proposers=ladder), reply)

    async def verify(self, case: Case, candidate: Candidate, *, blobs: Blobs, emit: Emit) -> Repair | NoRepair:
        """Judge one known change by the same steps, whatever its confidence is. No model is asked, and nobody is."""
        policy = replace(
            self.policy,
            autonomy="full",
            min_confidence=0.0,
            min_model_confidence=0.0,
            demanded_confidence=0.0,
            rungs=(rung_kind(candidate.rung),),
        )
        configuration = case.configuration.model_copy(update={"autonomy": None, "min_confidence": None, "rungs": None})
        opinions = replace(self.extensions, rungs=()) if self.extensions is not None else None
        alone = replace(
            self, ladder=lambda _: (Given(candidate),), models=None, checkpointer=None, policy=policy, extensions=opinions
        )
        found = await alone.heal(replace(case, configuration=configuration), blobs=blobs, emit=emit)
        assert not isinstance(found, Waiting), "nobody is asked"
        return found

    async def keep_green(self, case: Case, edits: Edits, *, blobs: Blobs, emit: Emit) -> str | None:
        """Whether the case's checks pass without a change, and still do with it: None, or else why not, a sentence."""
        async with self._prepared(case, emit) as prepared:
            if isinstance(prepared, NoRepair):
                return prepared.reason
            if isinstance(prepared, Uninstalled):
                return prepared.ended.reason
            await _load("agent.graph")
            from agent.graph import keep_green

            return await keep_green(prepared.task, self._context(case, blobs, emit, None), edits)

    async def reproduce(self, case: Case, *, emit: Emit) -> Reproduction:
        """Confirm the failure without repairing it."""
        async with _loading("agent.preparing", "agent.graph") as loading, self._prepared(case, emit) as prepared:
            if isinstance(prepared, NoRepair):
                return Reproduction(prepared, None)
            if isinstance(prepared, Uninstalled):
                return Reproduction(prepared.failure, None, prepared.plan)
            await loading
            from agent.graph import confirm

            return Reproduction(await confirm(prepared.task, self._context(case, MemoryBlobs(), emit, None)), prepared)

    async def forget(self, case_id: str) -> None:
        """Drop the checkpoints of a case that can no longer be forked. Until then, calling `heal` again resumes from them."""
        if self.checkpointer is not None:
            await self.checkpointer.adelete_thread(case_id)

    @asynccontextmanager
    async def _prepared(self, case: Case, emit: Emit) -> AsyncIterator[Prepared | Uninstalled | NoRepair]:
        """Prepare the case in a sandbox that stays open for the block. Raises `SandboxUnavailable`."""
        case, sandboxes = await self._in_its_image(case, emit)
        policy = self.extensions.allowed(self.policy) if self.extensions is not None else self.policy
        if unknown := set(case.configuration.rungs or ()) - set(policy.rungs):
            why = f"`rungs` names unknown rungs: {', '.join(sorted(unknown))}"
            await emit(Degraded(text=why, step="configuration", why=why))
        policy, budget = case.configuration.narrow(policy, self.budget)
        async with self._opened(case, sandboxes, emit) as sandbox:
            await _load("agent.preparing")
            from agent.preparing import prepare

            with tracing.step("prepare", case.id):
                prepared = await prepare(case, sandbox, emit, policy=policy, budget=budget)
            yield prepared

    async def _in_its_image(self, case: Case, emit: Emit) -> tuple[Case, Sandboxes]:
        """Use the image of the failed job if the sandbox supports images and the operator allows this one.

        Raises `SandboxUnavailable`.
        """
        if not isinstance(self.sandboxes, ImageSandboxes):
            return case, self.sandboxes
        from agent.ci.job.selection import read_image

        image = next((image for job in case.jobs if (image := read_image(job)) is not None), None)
        if image is None:
            return case, self.sandboxes
        if (sandboxes := self.sandboxes.with_image(image)) is None:
            why = f"this installation does not allow the job's image {image[:200]!r} (`sandbox_images`)"
            await emit(Degraded(text=f"{why}; the sandbox's own image is used.", step="sandbox", why=why))
            return case, self.sandboxes
        return replace(case, image=image), sandboxes

    @asynccontextmanager
    async def _opened(self, case: Case, sandboxes: Sandboxes, emit: Emit) -> AsyncIterator[Sandbox]:
        """Open a sandbox for the block. Emits `SandboxOpened` even when opening fails. Raises `SandboxUnavailable`."""
        kind, started = sandboxes.isolation.name, time.monotonic()
        async with AsyncExitStack() as stack:
            try:
                with tracing.step("sandbox", case.id):
                    sandbox = await stack.enter_async_context(sandboxes.open(case.label, self.limits))
            except SandboxError as error:
                seconds = time.monotonic() - started
                await emit(SandboxOpened(text="", sandbox=kind, seconds=seconds, error=type(error).__name__))
                raise
            await emit(SandboxOpened(text="", sandbox=kind, seconds=time.monotonic() - started))
            yield sandbox

    def _context(self, case: Case, blobs: Blobs, emit: Emit, memory: Memory | None) -> Context:
        """What every step works with; `heal` adds the ladder later."""
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


@asynccontextmanager
async def _loading(*modules: str) -> AsyncIterator[asyncio.Task[None]]:
    """Import modules in the background during the block, which awaits the yielded task only when it needs them."""
    task = asyncio.create_task(_load(*modules), name="loading")
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _load(*modules: str) -> None:
    """Import modules in order. LangGraph takes a second, so it is loaded while the sandbox opens and packages install."""
    for module in modules:
        await asyncio.to_thread(importlib.import_module, module)
