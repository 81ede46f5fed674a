"""The plan's limits, kept on this side: how many sandboxes this worker has at a time, and how fast it makes them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sandbox.base import SandboxUnavailable

PATIENCE = 60.0  # seconds that an attempt waits for its turn before it goes back into the queue
RETRY_AFTER = 30.0


class Admission:
    """`at_once` sandboxes, `per_second` creations, of this worker; what others use of the plan, E2B tells by 429."""

    def __init__(self, at_once: int, per_second: float) -> None:
        self._places = asyncio.Semaphore(at_once)
        self._at_once, self._apart = at_once, 1.0 / per_second
        self._next = 0.0

    @asynccontextmanager
    async def place(self, patience: float = PATIENCE) -> AsyncIterator[None]:
        """Hold one of the places. Raises `SandboxUnavailable`, to be tried later, when none becomes free."""
        try:
            async with asyncio.timeout(patience):
                await self._places.acquire()
        except TimeoutError:
            raise SandboxUnavailable(f"all {self._at_once} sandboxes of the plan are in use", RETRY_AFTER) from None
        try:
            yield
        finally:
            self._places.release()

    async def turn(self) -> None:
        """Wait until the next creation is due."""
        loop = asyncio.get_running_loop()
        due = max(self._next, loop.time())
        self._next = due + self._apart
        await asyncio.sleep(due - loop.time())
