"""Stops commands cleanly: on Ctrl-C, a time limit or a shutdown."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

SIGNALS = (signal.SIGINT, signal.SIGTERM)
_CANCEL_INTERVAL = 0.1
STOPPED = 130  # exit code that shells use for Ctrl-C


def run(work: Coroutine[Any, Any, T], new_loop: Callable[[], asyncio.AbstractEventLoop] | None = None) -> T:
    """`asyncio.run`, cancelled by SIGINT or SIGTERM, even if the parent ignored them; a second signal ends the process at once.

    Raises `KeyboardInterrupt` if it was stopped. `new_loop` creates the event loop, instead of asyncio's default.
    """
    try:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            return runner.run(_stoppable(work))
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


async def cancel_and_wait(task: asyncio.Task[Any]) -> None:
    """Cancel the task again and again until it is done.

    redis-py waits with `asyncio.wait_for`, which before Python 3.12 loses a cancellation that arrives together with the result.
    """
    while not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=_CANCEL_INTERVAL)


async def _stoppable(work: Coroutine[Any, Any, T]) -> T:
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None, "a coroutine runs in a task"

    def stop() -> None:
        for number in SIGNALS:
            loop.remove_signal_handler(number)
        task.cancel()

    for number in SIGNALS:
        loop.add_signal_handler(number, stop)
    return await work
