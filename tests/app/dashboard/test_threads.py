from __future__ import annotations

import asyncio
import threading

from app.dashboard.safe_text import run_in_thread


async def test_pages_and_what_else_needs_a_thread_do_not_wait_for_each_other() -> None:
    over = threading.Event()
    pages = [asyncio.create_task(run_in_thread(lambda: over.wait(30))) for _ in range(100)]
    try:
        await asyncio.sleep(0)
        async with asyncio.timeout(10):
            assert await asyncio.to_thread(lambda: "at once") == "at once"
    finally:
        over.set()
        assert all(await asyncio.gather(*pages))
