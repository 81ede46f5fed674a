"""The Python API: write code from a specification, or heal a folder whose tests fail.

    from agent import solve, heal

    solution = await solve("Merge overlapping intervals", name="merge_intervals", model="ollama_chat/qwen2.5-coder:7b")
    repair = await heal("path/to/project")

`solve_sync` and `heal_sync` do the same without an event loop. `Agent` keeps model, budget and sandbox for several calls, and
`Agent.stream` yields the events while it works. Settings of the service (`SELFHEAL_…`) are not read.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from uuid import uuid4

from platformdirs import user_cache_path

from agent import extensions
from agent.case import Case
from agent.contract.blobs import MemoryBlobs
from agent.contract.budget import Budget
from agent.contract.events import AnyEvent
from agent.contract.outcome import NoRepair, Repair
from agent.contract.question import Waiting
from agent.contract.task import Policy
from agent.engine import Engine
from agent.models.provider import unknown_provider
from agent.models.router import Models, find_local_model, needs_litellm
from agent.models.values import Misconfigured, ModelSettings
from agent.solving.home import BadSpecification
from agent.solving.solution import Options, Solution
from agent.solving.solve import solve as solve_specification
from agent.solving.specification import Specification, specify
from agent.source.archive import File, packed
from sandbox.backends import Kind, open_sandboxes
from sandbox.base import Limits

OnEvent = Callable[[AnyEvent], Awaitable[None]]
LEFT_OUT = frozenset(
    {".git", ".hg", ".venv", "venv", "node_modules", "__pycache__", ".tox", ".nox", ".mypy_cache", ".pytest_cache"}
)
MOST_BYTES = 200 * 1024 * 1024  # of a folder's files


class NoModel(Exception):
    """No model is named, and there is none in a local Ollama."""


@dataclass(frozen=True, slots=True)
class Agent:
    """A configured agent. Each call opens its own sandbox; between calls, only `options.lessons` are kept.

    `model` is LiteLLM's name, "none" (only `heal` works without one), "scripted", or None: Qwen-Coder, if a local Ollama has
    it.
    """

    model: str | None = None
    api_base: str | None = None
    api_key: str | None = field(default=None, repr=False)
    sandbox: Kind = "auto"
    trusted: bool = False  # allow a sandbox without isolation
    budget: Budget = Budget()
    options: Options = field(default_factory=Options)
    policy: Policy = Policy()

    async def run(self, spec: str | Specification, *, on_event: OnEvent | None = None, **given: str) -> Solution:
        """Write code from a specification. `given` are the keywords of `specify`: name, signature, doctests, tests.

        Raises `BadSpecification`, `NoModel`, `agent.models.values.ModelError`, `sandbox.base.SandboxError` and
        `agent.contract.extension.BrokenExtension`.
        """
        known = specify(spec, **given) if isinstance(spec, str) else spec
        engine = await self._engine()
        if engine.models is None:
            raise NoModel("a model must write the code: name one, or install Qwen-Coder in Ollama")
        return await solve_specification(known, engine, emit=on_event or _ignore, options=self.options)

    async def heal(self, folder: str | Path, *, on_event: OnEvent | None = None) -> Repair | NoRepair:
        """Heal a folder's files; the folder itself is never written.

        Raises `sandbox.base.SandboxError`, `OSError`, `agent.models.values.Misconfigured` and
        `agent.contract.extension.BrokenExtension`.
        """
        root = Path(folder)
        files = await asyncio.to_thread(_files, root)
        engine = await self._engine()
        case = Case(uuid4().hex, root.name or "folder", packed(files))
        found = await engine.heal(case, blobs=MemoryBlobs(), emit=on_event or _ignore)
        assert not isinstance(found, Waiting), "the autonomy is full"
        return found

    async def stream(self, spec: str | Specification, **given: str) -> AsyncIterator[AnyEvent | Solution]:
        """As `run`, but yields each event as it happens, and the solution at the end."""
        queue: asyncio.Queue[AnyEvent | Solution] = asyncio.Queue()
        task = asyncio.create_task(self.run(spec, on_event=queue.put, **given))
        task.add_done_callback(lambda done: None if done.cancelled() or done.exception() else queue.put_nowait(done.result()))
        try:
            while True:
                waiting = asyncio.create_task(queue.get())
                await asyncio.wait({waiting, task}, return_when=asyncio.FIRST_COMPLETED)
                if not waiting.done() and queue.empty():
                    waiting.cancel()
                    await task  # raises what `run` raised
                    return
                event = await waiting
                yield event
                if isinstance(event, Solution):
                    return
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await task

    async def _engine(self) -> Engine:
        sandboxes = await open_sandboxes(self.sandbox, user_cache_path("selfheal"), trusted=self.trusted)
        policy = replace(self.policy, autonomy="full")
        added = await asyncio.to_thread(extensions.load)
        return Engine(sandboxes, await self._models(), None, self.budget, Limits(), policy, added)

    async def _models(self) -> Models | None:
        if self.model == "none":
            return None
        name = self.model or await find_local_model(self.api_base)
        if not name:
            return None
        known = ModelSettings(name, self.api_base, self.api_key)
        if needs_litellm(known) and (why := await asyncio.to_thread(unknown_provider, name)):
            raise Misconfigured(f"the model {why}")
        return Models(known)


async def solve(
    spec: str | Specification,
    *,
    model: str | None = None,
    on_event: OnEvent | None = None,
    options: Options | None = None,
    **given: str,
) -> Solution:
    """Write code from a specification; see `Agent.run`."""
    return await Agent(model, options=options or Options()).run(spec, on_event=on_event, **given)


async def heal(folder: str | Path, *, model: str | None = "none", on_event: OnEvent | None = None) -> Repair | NoRepair:
    """Heal a folder whose tests fail; see `Agent.heal`."""
    return await Agent(model).heal(folder, on_event=on_event)


def solve_sync(
    spec: str | Specification,
    *,
    model: str | None = None,
    on_event: OnEvent | None = None,
    options: Options | None = None,
    **given: str,
) -> Solution:
    return asyncio.run(solve(spec, model=model, on_event=on_event, options=options, **given))


def heal_sync(folder: str | Path, *, model: str | None = "none", on_event: OnEvent | None = None) -> Repair | NoRepair:
    return asyncio.run(heal(folder, model=model, on_event=on_event))


def _files(root: Path) -> dict[str, File]:
    """The files of a folder, without repositories' data, environments and caches. Raises `OSError`."""
    if not root.is_dir():
        raise NotADirectoryError(f"{root} is not a folder")
    found: dict[str, File] = {}
    size = 0
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(set(folders) - LEFT_OUT)
        for name in sorted(names):
            path = Path(folder) / name
            if path.is_symlink() or not path.is_file():
                continue
            size += path.stat().st_size
            if size > MOST_BYTES:
                raise OSError(f"{root} has more than {MOST_BYTES // 1024**2} MiB; leave out what the tests do not need")
            found[path.relative_to(root).as_posix()] = File(path.read_bytes(), bool(path.stat().st_mode & 0o100))
    return found


async def _ignore(_: AnyEvent) -> None:
    """Events are not wanted."""


__all__ = ["Agent", "BadSpecification", "NoModel", "Options", "Solution", "heal", "heal_sync", "solve", "solve_sync"]
