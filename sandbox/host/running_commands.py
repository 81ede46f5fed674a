"""The running commands of one workspace, which end when it closes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from sandbox.base import Completed, SandboxLost


class RunningCommands:
    """Tracks running commands until `cancel_all`."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Completed]] = set()
        self._ended = False

    async def run(self, argv: tuple[str, ...], work: Coroutine[Any, Any, Completed]) -> Completed:
        """Run `work`, which its caller or `cancel_all` can cancel. Raises `SandboxLost` in the latter case."""
        if self._ended:
            work.close()
            raise SandboxLost("the workspace is closed", argv)
        task = asyncio.create_task(work)
        self._tasks.add(task)
        try:
            await asyncio.wait((task,))
        finally:
            task.cancel()
            await asyncio.wait((task,))
            self._tasks.discard(task)
        if task.cancelled():
            raise SandboxLost("the workspace was closed while its command was running", argv)
        return task.result()

    def check_open(self) -> None:
        """Raises `SandboxLost` after `cancel_all`."""
        if self._ended:
            raise SandboxLost("the workspace is closed")

    async def cancel_all(self) -> None:
        """Cancel the running commands and refuse new ones."""
        self._ended = True
        for task in (running := tuple(self._tasks)):
            task.cancel()
        if running:
            await asyncio.wait(running)


async def run_watched(work: Awaitable[Completed], check: Callable[[], Awaitable[None]], seconds: float) -> Completed:
    """Run `work`; call `check` every `seconds` and once at the end. If `check` raises, `work` is cancelled."""
    running = asyncio.ensure_future(work)
    try:
        while not (await asyncio.wait((running,), timeout=seconds))[0]:
            await check()
        await check()
    finally:
        running.cancel()
        await asyncio.wait((running,))
    return running.result()
