"""Work for pages that would hold up the loop, which has webhooks to answer, is done beside it, in threads of its own: what else
waits for a thread, as the address of a host does before a connection, must not wait behind pages. Knows no page."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
_THREADS = ThreadPoolExecutor(2, "pages")  # they share one interpreter with the loop: more would be no quicker


async def beside(work: Callable[[], T]) -> T:
    """Raises what the work raised. Who stops waiting does not stop it."""
    return await asyncio.get_running_loop().run_in_executor(_THREADS, work)
