"""Waiting for what another process or task does, with a limit."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable


async def until(holds: Callable[[], bool | Awaitable[bool]], seconds: float = 60.0) -> None:
    """Return once it holds; fails the test with TimeoutError when it does not in time."""
    async with asyncio.timeout(seconds):
        while True:
            answer = holds()
            if await answer if inspect.isawaitable(answer) else answer:
                return
            await asyncio.sleep(0.02)
