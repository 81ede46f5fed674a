"""What a person (Ctrl-C) or a machine (a time limit, a shutdown) may stop at any time, and that then ends tidily."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

SIGNALS = (signal.SIGINT, signal.SIGTERM)
_AGAIN_SECONDS = 0.1
STOPPED = 130  # exit code, as shells have it for Ctrl-C


def run(work: Coroutine[Any, Any, T], new_loop: Callable[[], asyncio.AbstractEventLoop] | None = None) -> T:
    """`asyncio.run`, cancelled by either signal, also where the parent had them ignored; a second one ends the process at once.

    Raises `KeyboardInterrupt` when it was stopped. `new_loop` makes another event loop than asyncio's own.
    """
    try:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            return runner.run(_stoppable(work))
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


async def ended(task: asyncio.Task[Any]) -> None:
    """Cancel it until it is done.

    Once is not enough for what asks Redis: its client waits by `asyncio.wait_for`, which before Python 3.12 loses a
    cancellation that comes together with what it waits for.
    """
    while not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=_AGAIN_SECONDS)


async def _stoppable(work: Coroutine[Any, Any, T]) -> T:
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None, "it runs in one"

    def stop() -> None:
        for number in SIGNALS:
            loop.remove_signal_handler(number)
        task.cancel()

    for number in SIGNALS:
        loop.add_signal_handler(number, stop)
    return await work
