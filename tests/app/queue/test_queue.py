from __future__ import annotations

import asyncio
import os
import signal
import time

import pytest
from arq.constants import default_queue_name, in_progress_key_prefix
from redis.asyncio import Redis

from app.queue.queue import Queue, job_seconds, sweep
from app.service.intake import StoreIntake
from app.settings import Settings
from app.store.store import Store
from tests.app.requests import RUN, delivery, taken


async def queued(url: str) -> list[str]:
    client: Redis = Redis.from_url(url)
    try:
        return [name.decode() for name in await client.zrange(default_queue_name, 0, -1)]
    finally:
        await client.aclose()


async def test_an_attempt_is_enqueued_once_by_its_id(redis_url: str, settings: Settings) -> None:
    queue = Queue.to(redis_url, settings)
    assert await queue.enqueue("one")
    assert await queue.enqueue("one")
    assert await queued(redis_url) == ["one"]
    await queue.close()


async def test_jobs_are_json_and_hold_the_id_alone(redis_url: str, settings: Settings) -> None:
    queue = Queue.to(redis_url, settings)
    await queue.enqueue("one")
    client: Redis = Redis.from_url(redis_url)
    job = await client.get("arq:job:one")
    await client.aclose()
    await queue.close()
    assert job.startswith(b'{"t":null,"f":"heal","a":["one"],"k":{}')


async def test_with_redis_down_the_delivery_is_taken_and_swept_later(store: Store, settings: Settings, redis_url: str) -> None:
    nowhere = Queue.to("redis://127.0.0.1:1", settings)
    result = await StoreIntake(store, nowhere).take(delivery(), RUN)
    assert result.attempt_id is not None
    assert await sweep(store, nowhere) == 0
    queue = Queue.to(redis_url, settings)
    assert await sweep(store, queue) == 1
    assert await queued(redis_url) == [result.attempt_id]
    await queue.close()


async def test_a_hung_redis_does_not_hold_up_a_delivery(store: Store, settings: Settings, redis_url: str) -> None:
    queue = Queue.to(redis_url, settings)
    client: Redis = Redis.from_url(redis_url)
    pid = int((await client.info("server"))["process_id"])
    await client.aclose()
    os.kill(pid, signal.SIGSTOP)
    try:
        began = time.monotonic()
        async with asyncio.timeout(5):
            result = await StoreIntake(store, queue).take(delivery(), RUN)
        assert time.monotonic() - began < 3
        assert await store.due() == [result.attempt_id]
    finally:
        os.kill(pid, signal.SIGCONT)
        await queue.close()


@pytest.mark.long
async def test_a_silent_redis_holds_up_nobody_longer_because_many_wait(settings: Settings) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with await asyncio.start_server(silent, "127.0.0.1", 0) as server:
        queue = Queue.to(f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}", settings)
        async with asyncio.timeout(10):  # fifteen round trips, a second each
            taken = await asyncio.gather(*(queue.enqueue(f"{number}") for number in range(3000)))
        await queue.close()
    assert not any(taken)


async def test_a_flushed_redis_is_filled_again(store: Store, settings: Settings, redis_url: str) -> None:
    queue = Queue.to(redis_url, settings)
    attempt_id = await taken(store, RUN)
    assert await queue.enqueue(attempt_id)
    client: Redis = Redis.from_url(redis_url)
    await client.flushall()
    await client.aclose()
    assert await sweep(store, queue) == 1
    assert await queued(redis_url) == [attempt_id]
    await queue.close()


async def test_only_an_old_mark_of_progress_is_taken_away(redis_url: str, settings: Settings) -> None:
    queue = Queue.to(redis_url, settings)
    client: Redis = Redis.from_url(redis_url)
    marked_ms = int((job_seconds(settings) + 10) * 1000)
    await client.psetex(in_progress_key_prefix + "fresh", marked_ms, b"1")
    await client.psetex(in_progress_key_prefix + "old", marked_ms - int(settings.lease_seconds * 1000) - 100, b"1")
    assert await queue.bring_back("fresh")
    assert await queue.bring_back("old")
    assert await client.exists(in_progress_key_prefix + "fresh") == 1
    assert await client.exists(in_progress_key_prefix + "old") == 0
    await client.aclose()
    await queue.close()
