"""`selfheal fix`: heal a local checkout, and hand on the patch with what proves it (`showing`).

Progress goes to standard error, the result to standard output; where that is piped, it is the patch alone, so that
`selfheal fix . | git apply` works, and everything else is said on standard error. The checkout is read, never written, unless
`apply` is set.
"""

from __future__ import annotations

import asyncio
import importlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import uuid4

from platformdirs import user_cache_path

from agent.blobs import MemoryBlobs
from agent.ci.configuration import NO_CONFIGURATION, Configuration, Problem, read_configuration
from agent.ci.configuration import PATH as CONFIGURATION
from agent.events import Degraded
from agent.task import NoRepair, Outcome, Repair, Waiting
from app import checkout, terminal
from app.assembly import budget_of, e2b_of, extensions_of, limits_of, models_of
from app.engine import Case, Engine, without_a_run
from app.settings import Settings
from app.showing import Screen, show
from sandbox.base import Isolation, Limits, Sandbox, SandboxError, Sandboxes, SandboxUnavailable
from sandbox.choose import open_sandboxes


async def run(root: Path, settings: Settings, *, test: str | None, apply: bool, json: bool) -> bool:
    """Heal the checkout at `root`; True when a verified repair was found (and, with `apply`, written)."""
    progress = terminal.console(stderr=True)
    screen = Screen(progress, time.monotonic())
    async with AsyncExitStack() as stack:
        if progress.is_terminal:
            stack.enter_context(progress.status("healing …"))
        result = await _heal(root, settings, test, screen)
    applied, problem = False, None
    if isinstance(result, Repair) and apply:
        try:
            await checkout.apply(root, result.edits)
            applied = True
        except (checkout.CheckoutChanged, checkout.CheckoutUnwritable) as error:
            problem = str(error)
    show(screen, result, applied=applied, problem=problem, json=json)
    return isinstance(result, Repair) and problem is None


async def _heal(root: Path, settings: Settings, test: str | None, screen: Screen) -> Repair | NoRepair:
    configuration = _own_configuration(root)
    if isinstance(configuration, NoRepair):
        return configuration
    try:
        # Each waits for programs, answers or imports of its own.
        sandboxes, models, added, memory = await asyncio.gather(
            _sandboxes(settings, screen),
            models_of(settings),
            extensions_of(),
            asyncio.to_thread(importlib.import_module, "langgraph.checkpoint.memory"),
        )
        engine = Engine(
            sandboxes=sandboxes,
            models=models,
            checkpointer=memory.InMemorySaver(),
            budget=budget_of(settings),
            limits=limits_of(settings),
            extensions=added,
        )
        # Nothing is published, and whoever asked is there: whatever the repository says, no person is waited for.
        configuration = replace(configuration, autonomy=None)
        case = Case(id=uuid4().hex, label=root.name, archive=checkout.packed(root), configuration=configuration, command=test)
        result = await engine.heal(case, blobs=MemoryBlobs(), emit=screen.emit)
        assert not isinstance(result, Waiting), "nobody is asked: nothing is published"
        return result
    except checkout.CheckoutUnreadable as error:
        return without_a_run(Outcome.REFUSED, f"{error}.", "Make it readable, or let git ignore it, and run again.")
    except SandboxError as error:
        return without_a_run(
            Outcome.INFRASTRUCTURE, f"The sandbox failed: {error}.", "Try again; if it stays, look at the sandbox's settings."
        )


async def _sandboxes(settings: Settings, screen: Screen) -> Sandboxes:
    """The configured sandbox; without bubblewrap a plain subprocess, which is enough for the person's own code.

    Kept in the person's cache folder: the checkout, which may be the current folder, stays as it is.
    """
    folder = user_cache_path("selfheal")
    hosts = settings.package_index_hosts
    # Whoever runs their own checkout's tests vouches for its code.
    sandboxes = await open_sandboxes(settings.sandbox, folder, trusted=True, index_hosts=hosts, e2b=e2b_of(settings))
    if settings.sandbox != "auto":
        return sandboxes

    async def plain(error: SandboxUnavailable) -> Sandboxes:
        why = f"{error.reason}; until then your checkout runs as a plain process, with limits but without isolation"
        await screen.emit(Degraded(text=why, step="sandbox", why=why))
        return await open_sandboxes("process", folder, trusted=True, index_hosts=hosts)

    return _OrElse(sandboxes, plain)


@dataclass(frozen=True, slots=True)
class _OrElse:
    """Opens `first`; where that cannot be had here, what `second` makes of it."""

    first: Sandboxes
    second: Callable[[SandboxUnavailable], Awaitable[Sandboxes]]

    @property
    def isolation(self) -> Isolation:
        return self.first.isolation

    @asynccontextmanager
    async def open(self, label: str, limits: Limits | None = None) -> AsyncIterator[Sandbox]:
        async with AsyncExitStack() as closing:
            try:
                sandbox = await closing.enter_async_context(self.first.open(label, limits))
            except SandboxUnavailable as error:
                sandbox = await closing.enter_async_context((await self.second(error)).open(label, limits))
            yield sandbox


def _own_configuration(root: Path) -> Configuration | NoRepair:
    file = root / CONFIGURATION
    if not file.is_file():
        return NO_CONFIGURATION
    try:
        text = file.read_text("utf-8", "replace")
    except OSError as error:
        return without_a_run(Outcome.REFUSED, f"{CONFIGURATION} cannot be read: {error.strerror}.", "Make it readable.")
    configuration = read_configuration(text)
    if isinstance(configuration, Problem):
        return without_a_run(
            Outcome.REFUSED, f"{CONFIGURATION} cannot be followed. {configuration.sentence}", "Mend it and run again."
        )
    return configuration
