"""The commands of one workspace: none of them outlives it, whichever sandbox it is of."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from sandbox.base import Completed, SandboxLost


class Running:
    """What runs now, until `end`."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Completed]] = set()
        self._ended = False

    async def hold(self, argv: tuple[str, ...], work: Coroutine[Any, Any, Completed]) -> Completed:
        """Run `work` so that both its caller and `end` can end it. Raises `SandboxLost` for the latter."""
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

    async def end(self) -> None:
        """End the commands that still run, and let none begin."""
        self._ended = True
        for task in (running := tuple(self._tasks)):
            task.cancel()
        if running:
            await asyncio.wait(running)
