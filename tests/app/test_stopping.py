"""What is told to stop stops, though a client library may lose a cancellation."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import structlog

from app.clock import SystemClock
from app.queue.queue import Queue
from app.service.worker import run_worker
from app.settings import load
from app.stopping import cancel_and_wait
from app.store.store import open_store
from tests.app.service.crew import jobs
from tests.app.waiting import until


async def test_a_cancellation_that_is_lost_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.stopping._CANCEL_INTERVAL", 0.05)
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
        await cancel_and_wait(task)
    assert task.cancelled()


@pytest.mark.long
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
            working = asyncio.create_task(run_worker(settings, store, redis_url, jobs(heal)))
            await begun.wait()
            await asyncio.sleep((0, 0, 0.0005, 0.001, 0.002, 0.005)[number % 6])
            working.cancel()
            _, still = await asyncio.wait({working}, timeout=40)
            assert not still
    await queue.close()


@pytest.mark.parametrize(("retries", "told"), [(30, "redis does not answer"), (0, "redis is unavailable")])
async def test_a_worker_without_redis_says_so_and_stops_when_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, retries: int, told: str
) -> None:
    monkeypatch.setattr("app.service.worker._REDIS_RETRIES", retries)
    settings = load(data_dir=tmp_path / "data", github_webhook_secret="hush", sweep_seconds=0.1)
    nowhere = f"unix://{tmp_path}/nowhere"

    async def heal(_: str) -> None: ...

    async with open_store(settings, SystemClock()) as store:
        with structlog.testing.capture_logs() as logged:
            working = asyncio.create_task(run_worker(settings, store, nowhere, jobs(heal)))
            await until(lambda: any(told in line["event"] for line in logged))
            await asyncio.sleep(0.5)  # it is closing what it had, or pauses
            working.cancel()
            _, still = await asyncio.wait({working}, timeout=15)
    assert not still
