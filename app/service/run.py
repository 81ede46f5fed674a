"""The service's processes as the command line starts them, and what a worker opens."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import structlog

from app.assembly import (
    budget_of,
    check_trust,
    embedder_of,
    extensions_of,
    github_of,
    limits_of,
    models_named,
    models_of,
    policy_of,
    sandboxes_of,
)
from app.observability import log
from app.observability.traces import export_spans
from app.queue.redis import RedisMissing
from app.service.process import dev, stop_on_signals
from app.service.watchdog import exit_when_hung
from app.service.web import serve
from app.service.worker import Heal, work, worker_name
from app.settings import Settings
from app.store.checkpoints.checkpoints import open_checkpoints
from app.store.database.database import StoreError
from app.store.store import Store
from sandbox.base import SandboxUnavailable

CANNOT_START = (StoreError, RedisMissing, SandboxUnavailable)
"""Raised when something outside is not as needed, with a sentence for the operator."""

_log = structlog.get_logger()


async def web(settings: Settings) -> None:
    """Serve webhooks and pages until a signal. Raises `SettingsError` for a sandbox that a worker would refuse."""
    log.configure(settings.log_level, settings.secrets)
    check_trust(settings)
    gc.freeze()  # modules stay loaded: keeps full collections, which delay every webhook, short
    message = "stopping; open requests are still answered"
    with log.log_prints(), export_spans(settings, "web"), exit_when_hung(), stop_on_signals(message) as stop:
        await serve(settings, stop, _listening)


def loop_of_web() -> asyncio.AbstractEventLoop:
    """uvloop's event loop where available: it takes twice the webhooks of asyncio's own."""
    if sys.platform == "win32":
        return asyncio.new_event_loop()
    import uvloop

    return uvloop.new_event_loop()


async def worker(settings: Settings) -> None:
    """Heal until a signal."""
    log.configure(settings.log_level, settings.secrets)
    with log.log_prints(), export_spans(settings, "worker"), exit_when_hung(), stop_on_signals() as stop:
        await work(settings, open_heal, stop)


async def both(settings: Settings) -> None:
    """Web and worker in one process until a signal."""
    log.configure(settings.log_level, settings.secrets)
    with log.log_prints(), export_spans(settings, "web and worker"), stop_on_signals() as stop:
        await dev(settings, open_heal, stop, _listening)


@asynccontextmanager
async def open_heal(settings: Settings, store: Store) -> AsyncIterator[Heal]:
    """Open what repairing needs: extensions, GitHub's client, sandboxes, models, checkpoints.

    Proves the sandbox's isolation before anything is claimed. Raises `SettingsError`, `SandboxUnavailable` (also if it does not
    isolate).
    """
    # Not for the web process, which must not pay for these imports.
    from agent.engine import Engine
    from app.attempt.story import Deps, heal
    from app.service.isolation import in_background, require_isolation

    github = github_of(settings)  # first what depends on settings only
    added = await extensions_of()
    sandboxes = await sandboxes_of(settings)
    models = await models_of(settings)
    for shortcoming in sandboxes.isolation.shortcomings:
        _log.warning("sandbox has limitations", sandbox=sandboxes.isolation.name, limitation=shortcoming)
    async with (
        in_background(require_isolation(settings, sandboxes)) as proof,
        github,
        open_checkpoints(settings) as checkpointer,
    ):
        engine = Engine(
            sandboxes=sandboxes,
            models=models,
            checkpointer=checkpointer,
            budget=budget_of(settings),
            limits=limits_of(settings),
            policy=policy_of(settings),
            extensions=added,
            models_named=partial(models_named, settings),
        )
        deps = Deps(
            store=store,
            github=github,
            engine=engine,
            worker=worker_name(),
            max_tries=settings.max_tries,
            secrets=settings.secrets,
            rerun=settings.rerun_flaky,
            embedder=embedder_of(settings, models),
        )
        await proof
        _log.info(
            "ready",
            worker=deps.worker,
            sandbox=sandboxes.isolation.name,
            model=models.name if models else None,
            extensions=[*(placed.proposer.rung for placed in added.rungs), *(opinion.name for opinion in added.opinions)],
        )
        yield partial(heal, deps=deps)


def _listening(url: str) -> None:
    _log.info("listening", url=url)
