"""Keeps to the plan's limits on this side: concurrent sandboxes, and creations per second."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sandbox.base import SandboxUnavailable

PATIENCE = 60.0  # seconds an attempt waits before it returns to the queue
RETRY_AFTER = 30.0


class Admission:
    """At most `at_once` sandboxes and `per_second` creations of this worker; E2B answers 429 for what others use."""

    def __init__(self, at_once: int, per_second: float) -> None:
        self._slots = asyncio.Semaphore(at_once)
        self._at_once, self._apart = at_once, 1.0 / per_second
        self._next = 0.0

    @asynccontextmanager
    async def slot(self, timeouts: float = PATIENCE) -> AsyncIterator[None]:
        """Hold one slot. Raises `SandboxUnavailable`, to be retried later, if none becomes free."""
        try:
            async with asyncio.timeout(timeouts):
                await self._slots.acquire()
        except TimeoutError:
            raise SandboxUnavailable(f"all {self._at_once} sandboxes of the plan are in use", RETRY_AFTER) from None
        try:
            yield
        finally:
            self._slots.release()

    async def wait_turn(self) -> None:
        """Wait until the next creation is due."""
        loop = asyncio.get_running_loop()
        due = max(self._next, loop.time())
        self._next = due + self._apart
        await asyncio.sleep(due - loop.time())
