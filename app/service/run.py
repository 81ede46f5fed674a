"""Runs the service's processes for the command line, until a signal or a hang ends them; opens what a worker needs."""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import gc
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
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
from app.queue.queue import Queue
from app.queue.redis import RedisMissing
from app.service.intake import StoreIntake
from app.service.web import serve
from app.service.worker import Jobs, OpenJobs, work, worker_name
from app.settings import Settings
from app.stopping import SIGNALS, cancel_and_wait
from app.store.checkpoints.checkpoints import open_checkpoints
from app.store.database.address import StoreError
from app.store.store import Store
from sandbox.base import SandboxUnavailable

_log = structlog.get_logger()


@contextmanager
def stop_on_signals(message: str = "stopping; returning running attempts to the queue") -> Iterator[asyncio.Event]:
    """An event that SIGTERM or SIGINT sets, with the message logged. A second signal ends the process at once."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()

    def handle() -> None:
        _log.info(message)
        stop.set()
        for number in SIGNALS:
            loop.remove_signal_handler(number)

    for number in SIGNALS:
        loop.add_signal_handler(number, handle)
    try:
        yield stop
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)


async def dev(settings: Settings, open_jobs: OpenJobs, stop: asyncio.Event, on_listening: Callable[[str], None]) -> None:
    """Run web and worker in this process, until `stop` is set or one of them fails. Raises what `serve` and `work` raise.

    The worker starts once the web process listens; if that fails, no attempt is claimed.
    """
    may_work = asyncio.Event()

    def listening(url: str) -> None:
        may_work.set()
        on_listening(url)

    async def serve_then_stop() -> None:
        try:
            await serve(settings, stop, listening)
        finally:
            stop.set()
            may_work.set()

    async def work_then_stop() -> None:
        await may_work.wait()
        try:
            if not stop.is_set():
                await work(settings, open_jobs, stop)
        finally:
            stop.set()

    for ended in await asyncio.gather(serve_then_stop(), work_then_stop(), return_exceptions=True):
        if ended is not None:
            raise ended


HUNG_SECONDS = 120.0  # without a heartbeat; a process stopped for longer (SIGSTOP, `docker pause`) ends when it continues
SIGN_SECONDS = 5.0  # between two heartbeats


@contextmanager
def exit_when_hung() -> Iterator[None]:
    """End the process if the running loop hangs during the block: Docker restarts processes that end, not unhealthy ones.

    Other workers take over its attempts when the leases expire, as after any kill. The timer is faulthandler's, a C thread: a
    Python thread would wait for the interpreter's lock, which the hanging code may hold. It writes every thread's stack to
    stderr and ends the process with exit code 1. A signal would not work: without a handler, it does not end the first process
    of a container. Only one such block at a time.
    """
    loop = asyncio.get_running_loop()
    stderr = _stderr_that_never_blocks()
    timer: asyncio.TimerHandle

    def restart_timer() -> None:
        nonlocal timer
        faulthandler.dump_traceback_later(HUNG_SECONDS, exit=True, file=stderr)
        timer = loop.call_later(SIGN_SECONDS, restart_timer)

    restart_timer()
    try:
        yield
    finally:
        timer.cancel()
        faulthandler.cancel_dump_traceback_later()
        os.close(stderr)


def _stderr_that_never_blocks() -> int:
    """A non-blocking file descriptor of stderr: a full pipe, which may be why the process hangs, must not also block its exit.

    Opened separately, because the mode of descriptor 2 is shared with other processes. If that fails (a socket, or no /proc),
    nothing is written.
    """
    with contextlib.suppress(OSError):
        return os.open("/proc/self/fd/2", os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    return os.open(os.devnull, os.O_WRONLY)


CANNOT_START = (StoreError, RedisMissing, SandboxUnavailable)
"""The errors that prevent a start; each has a message for the operator."""


async def web(settings: Settings) -> None:
    """Serve webhooks and pages until a signal. Raises `SettingsError` for a sandbox that a worker would refuse."""
    log.configure(settings.log_level, settings.secrets)
    check_trust(settings)
    gc.freeze()  # modules stay loaded; full collections, which delay every webhook, stay short
    message = "stopping; open requests are still answered"
    with log.log_prints(), export_spans(settings, "web"), exit_when_hung(), stop_on_signals(message) as stop:
        await serve(settings, stop, _listening)


def loop_of_web() -> asyncio.AbstractEventLoop:
    """uvloop's event loop, which handles twice as many webhooks as asyncio's own."""
    import uvloop

    return uvloop.new_event_loop()


async def worker(settings: Settings) -> None:
    """Run a worker until a signal."""
    log.configure(settings.log_level, settings.secrets)
    with log.log_prints(), export_spans(settings, "worker"), exit_when_hung(), stop_on_signals() as stop:
        await work(settings, open_jobs, stop)


async def both(settings: Settings) -> None:
    """Run web and worker in one process until a signal."""
    log.configure(settings.log_level, settings.secrets)
    with log.log_prints(), export_spans(settings, "web and worker"), stop_on_signals() as stop:
        await dev(settings, open_jobs, stop, _listening)


@asynccontextmanager
async def open_jobs(settings: Settings, store: Store, queue: Queue) -> AsyncIterator[Jobs]:
    """Open what repairing needs: extensions, GitHub's client, sandboxes, models, checkpoints.

    Proves the sandbox's isolation before anything is claimed. Raises `SettingsError`, `SandboxUnavailable` (also if it does not
    isolate).
    """
    # Imported here, so that the web process does not pay for these imports.
    from agent.engine import Engine
    from app.attempt.commands import CommandDesk
    from app.attempt.story import Deps, heal
    from app.service.isolation import in_background, require_isolation
    from app.service.missed import redeliver_for_ever
    from app.service.needless import tidy_for_ever
    from app.service.reconciler import take_up_for_ever
    from app.service.suites import stop_for_ever

    github = github_of(settings, budget=queue.write_budget())  # first the parts that depend on settings only
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
            pages_url=settings.pages_url,
            branch_prefix=settings.branch_prefix,
            wait_for_runs=settings.wait_for_runs_seconds,
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
        intake = StoreIntake(store, queue)
        looks = (
            redeliver_for_ever(github, store, deps.worker),
            take_up_for_ever(github, store, intake, deps.worker, settings.branch_prefix),
            tidy_for_ever(github, store, deps.worker),
            stop_for_ever(github, store, deps.worker),
        )
        regular = [asyncio.create_task(look) for look in looks]
        try:
            yield Jobs(partial(heal, deps=deps), CommandDesk(store, github, queue.enqueue, settings.pages_url).decide)
        finally:
            await asyncio.gather(*map(cancel_and_wait, regular))


def _listening(url: str) -> None:
    _log.info("listening", url=url)
