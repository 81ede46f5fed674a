"""Runs slow page work in its own threads, so that it blocks neither the event loop, which answers webhooks, nor the default
thread pool, which for example resolves host names."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
_THREADS = ThreadPoolExecutor(2, "pages")  # more would not be faster, because of the GIL


async def run_in_thread(work: Callable[[], T]) -> T:
    """Raises what the work raises. Cancelling the caller does not stop the work."""
    return await asyncio.get_running_loop().run_in_executor(_THREADS, work)
