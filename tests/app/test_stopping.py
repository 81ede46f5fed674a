"""What is told to stop stops, though a client library may lose a cancellation."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from app.clock import SystemClock
from app.queue import Queue
from app.settings import load
from app.stopping import ended
from app.store.store import open_store
from app.worker import run_worker


async def test_a_cancellation_that_is_lost_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.stopping._AGAIN_SECONDS", 0.05)
    lost = 0

    async def deaf() -> None:
        nonlocal lost
        while lost < 3:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                lost += 1
        await asyncio.sleep(60)

    task = asyncio.create_task(deaf())
    await asyncio.sleep(0)
    async with asyncio.timeout(30):
        await ended(task)
    assert task.cancelled()


async def test_a_worker_stops_at_whatever_moment_a_job_begins(tmp_path: Path, redis_url: str) -> None:
    settings = load(data_dir=tmp_path / "data", github_webhook_secret="hush", sweep_seconds=0.01)
    queue = Queue.to(redis_url, settings)
    async with open_store(settings, SystemClock()) as store:
        for number in range(30):  # on Python 3.11 redis-py loses the cancellation of every fourth or so
            begun = asyncio.Event()

            async def heal(_: str, begun: asyncio.Event = begun) -> None:
                begun.set()
                await asyncio.sleep(600)

            assert await queue.enqueue(f"{number:032x}")
            working = asyncio.create_task(run_worker(settings, store, redis_url, heal))
            await begun.wait()
            await asyncio.sleep((0, 0, 0.0005, 0.001, 0.002, 0.005)[number % 6])
            working.cancel()
            _, still = await asyncio.wait({working}, timeout=40)
            assert not still
    await queue.close()
