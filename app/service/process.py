"""Runs the service until a signal: web and worker apart or in one process."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Iterator

import structlog

from app.service.web import serve
from app.service.worker import OpenHeal, work
from app.settings import Settings

_log = structlog.get_logger(__name__)
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextlib.contextmanager
def stop_on_signals(message: str = "stopping; returning running attempts to the queue") -> Iterator[asyncio.Event]:
    """An event that SIGTERM and SIGINT set; logs the message. A second signal ends the process at once."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()

    def handle() -> None:
        _log.info(message)
        stop.set()
        for number in _SIGNALS:
            loop.remove_signal_handler(number)

    for number in _SIGNALS:
        loop.add_signal_handler(number, handle)
    try:
        yield stop
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)


async def dev(settings: Settings, open_heal: OpenHeal, stop: asyncio.Event, on_listening: Callable[[str], None]) -> None:
    """Web and worker in this process, until `stop` is set or one of them fails. Raises what `serve` and `work` raise.

    The worker starts once the web process listens; if that fails, no attempt is claimed.
    """
    may_work = asyncio.Event()

    def listening(url: str) -> None:
        may_work.set()
        on_listening(url)

    async def work_then() -> None:
        await may_work.wait()
        if not stop.is_set():
            await work(settings, open_heal, stop)

    async def both(*running: asyncio.Task[None]) -> None:
        await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        stop.set()
        may_work.set()
        await asyncio.wait(running)

    web = asyncio.create_task(serve(settings, stop, listening), name="web")
    worker = asyncio.create_task(work_then(), name="worker")
    try:
        await both(web, worker)
    finally:
        for task in (web, worker):
            task.cancel()
        await asyncio.wait({web, worker})
    web.result()
    worker.result()
