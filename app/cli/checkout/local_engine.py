"""The engine for a local checkout, used by `selfheal fix` and `selfheal reproduce`.

The user trusts the checkout's code, so a plain process is used if no isolating sandbox is available.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from platformdirs import user_cache_path

from agent.case import without_a_run
from agent.ci.project.configuration import NO_CONFIGURATION, Configuration, ConfigurationProblem, read_configuration
from agent.ci.project.configuration import PATH as CONFIGURATION
from agent.contract.events import Degraded
from agent.contract.outcome import NoRepair, Outcome
from agent.engine import Engine
from app.assembly import budget_of, e2b_of, extensions_of, limits_of, models_of
from app.cli.checkout.checkout import CheckoutUnreadable
from app.cli.checkout.progress import Screen
from app.settings import Settings
from sandbox.backends import ContainerOptions, open_sandboxes
from sandbox.base import Isolation, Limits, Sandbox, SandboxError, Sandboxes, SandboxUnavailable


async def engine(settings: Settings, screen: Screen) -> Engine:
    """An engine without persistence. Raises `SandboxUnavailable`."""
    # Concurrently: each of these waits for programs, network or imports.
    sandboxes, models, extensions = await asyncio.gather(
        _sandboxes(settings, screen),
        models_of(settings),
        extensions_of(),
    )
    return Engine(
        sandboxes=sandboxes,
        models=models,
        checkpointer=None,
        budget=budget_of(settings),
        limits=limits_of(settings),
        extensions=extensions,
    )


def configuration(root: Path) -> Configuration | NoRepair:
    file = root / CONFIGURATION
    if not file.is_file():
        return NO_CONFIGURATION
    try:
        text = file.read_text("utf-8", "replace")
    except OSError as error:
        return without_a_run(Outcome.REFUSED, f"{CONFIGURATION} cannot be read: {error.strerror}.", "Make it readable.")
    found = read_configuration(text)
    if isinstance(found, ConfigurationProblem):
        return without_a_run(Outcome.REFUSED, f"{CONFIGURATION} is invalid. {found.sentence}", "Fix it and run again.")
    return found


def unreadable(error: CheckoutUnreadable) -> NoRepair:
    return without_a_run(Outcome.REFUSED, f"{error}.", "Make it readable, or let git ignore it, and run again.")


def failed(error: SandboxError) -> NoRepair:
    return without_a_run(
        Outcome.INFRASTRUCTURE, f"The sandbox failed: {error}.", "Try again. If it fails again, check the sandbox's settings."
    )


async def _sandboxes(settings: Settings, screen: Screen) -> Sandboxes:
    """The configured sandbox; with `auto`, a plain process if no isolation is available.

    Files are kept in the user's cache folder, not in the checkout.
    """
    folder = user_cache_path("selfheal")
    hosts, downloads = settings.package_index_hosts, settings.python_downloads
    # Users who run their own checkout's tests trust its code.
    containers = ContainerOptions(settings.sandbox_image, settings.docker_host, settings.sandbox_images)
    sandboxes = await open_sandboxes(
        settings.sandbox,
        folder,
        trusted=True,
        index_hosts=hosts,
        e2b=e2b_of(settings),
        containers=containers,
        python_downloads=downloads,
    )
    if settings.sandbox != "auto":
        return sandboxes

    async def plain(error: SandboxUnavailable) -> Sandboxes:
        why = f"{error.reason}; your checkout runs as a plain process, with limits but without isolation"
        await screen.emit(Degraded(text=why, step="sandbox", why=why))
        return await open_sandboxes("process", folder, trusted=True, index_hosts=hosts, python_downloads=downloads)

    return _WithFallback(sandboxes, plain)


@dataclass(frozen=True, slots=True)
class _WithFallback:
    """Opens `first`, or the result of `second` if `first` is unavailable."""

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
