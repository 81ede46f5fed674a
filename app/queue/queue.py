"""The queue from the database to the workers: arq over Redis carries attempts' ids, nothing else.

Redis may be slow, empty or unavailable at any time. So enqueueing is short and never fails the caller, and the sweeper enqueues
what is missing.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Generic, TypeVar

import msgspec
import structlog
from arq.connections import ArqRedis
from arq.constants import default_queue_name, expires_extra_ms, in_progress_key_prefix, job_key_prefix
from arq.jobs import serialize_job
from redis.asyncio import ConnectionPool
from redis.exceptions import RedisError
from sqlalchemy.exc import SQLAlchemyError

from app.settings import Settings
from app.store.store import Store, terms_of

T = TypeVar("T")
R = TypeVar("R")


class Batcher(Generic[T, R]):
    """Group commit, as in databases' logs: items submitted while a batch runs share the next batch.

    So an item that arrives alone starts at once, and under load an item waits for at most two batches.

    `work` gets at most `most` items, in order, and returns one result for each: a value or an exception.

    What `work` itself raises is raised for the whole batch.
    """

    def __init__(self, work: Callable[[Sequence[T]], Awaitable[Sequence[R | Exception]]], most: int) -> None:
        self._work = work
        self._most = most
        self._pending: deque[tuple[T, asyncio.Future[R]]] = deque()
        self._running: asyncio.Task[None] | None = None

    async def submit(self, item: T) -> R:
        """Raises what the work raised. A caller cancelled before its batch starts is dropped from it."""
        answer: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._pending.append((item, answer))
        if self._running is None:
            self._running = asyncio.create_task(self._run())
        return await answer

    async def _run(self) -> None:
        batch: list[tuple[T, asyncio.Future[R]]] = []
        try:
            while self._pending:
                batch = [self._pending.popleft() for _ in range(min(self._most, len(self._pending)))]
                batch = [(item, answer) for item, answer in batch if not answer.done()]
                if batch:
                    await self._run_batch(batch)
        finally:
            self._running = None
            for _, answer in (*batch, *self._pending):  # only if this task was cancelled
                answer.cancel()

    async def _run_batch(self, batch: Sequence[tuple[T, asyncio.Future[R]]]) -> None:
        results: Sequence[R | Exception]
        try:
            results = await self._work([item for item, _ in batch])
        except Exception as error:  # noqa: BLE001 - whatever `work` raises, the callers get it
            results = [error] * len(batch)
        for (_, answer), result in zip(batch, results, strict=True):
            if answer.done():
                continue
            if isinstance(result, Exception):
                answer.set_exception(result)
            else:
                answer.set_result(result)


FUNCTION: Final = "heal"
_ENQUEUE_SECONDS = 1.0
_MAX_BATCH = 200  # ids in one round trip
_log = structlog.get_logger(__name__)

serialize = msgspec.json.encode
"""Encodes a job as JSON: with pickle, arq's default, anyone who can write to Redis could run code in the worker."""
deserialize = msgspec.json.decode


def job_seconds(settings: Settings) -> float:
    """arq's time limit of a job. The lease's limit is shorter, so that an overlong try is counted as failed."""
    return terms_of(settings).longest + 60


class Queue:
    """Puts attempts' ids into Redis. Connects on first use and reconnects as needed."""

    def __init__(self, redis: ArqRedis, settings: Settings) -> None:
        self._redis = redis
        # arq marks a job as in progress for its time limit plus ten seconds.
        self._marked_ms = (job_seconds(settings) + 10) * 1000
        self._silence_ms = settings.lease_seconds * 1000
        self._ids: Batcher[str, None] = Batcher(self._put, _MAX_BATCH)

    @classmethod
    def to(cls, url: str, settings: Settings) -> Queue:
        """`url`: redis://, rediss:// or unix://. Connects lazily."""
        pool: ConnectionPool = ConnectionPool.from_url(
            url, socket_timeout=_ENQUEUE_SECONDS, socket_connect_timeout=_ENQUEUE_SECONDS
        )
        return cls(ArqRedis(pool, job_serializer=serialize, job_deserializer=deserialize), settings)

    async def enqueue(self, attempt_id: str) -> bool:
        """Enqueue unless already queued; False if Redis does not accept it within two seconds."""
        try:
            async with asyncio.timeout(2 * _ENQUEUE_SECONDS):
                await self._ids.submit(attempt_id)
        except (RedisError, OSError) as error:
            _log.warning("not enqueued; the sweeper will retry", attempt=attempt_id, error=repr(error))
            return False
        return True

    async def _put(self, attempt_ids: Sequence[str]) -> Sequence[None]:
        """Does for many jobs in one transaction what arq's `enqueue_job` does for one job in three round trips."""
        now_ms = time.time_ns() // 1_000_000
        async with asyncio.timeout(_ENQUEUE_SECONDS), self._redis.pipeline(transaction=True) as pipe:
            for attempt_id in attempt_ids:
                job = serialize_job(FUNCTION, (attempt_id,), {}, None, now_ms, serializer=serialize)
                pipe.set(job_key_prefix + attempt_id, job, px=expires_extra_ms, nx=True)
            pipe.zadd(default_queue_name, dict.fromkeys(attempt_ids, now_ms), nx=True)
            await pipe.execute()
        return [None] * len(attempt_ids)

    async def bring_back(self, attempt_id: str) -> bool:
        """Enqueue an attempt that no worker has, according to the database. False if Redis does not accept it.

        A dead worker leaves arq's "in progress" mark, which blocks the job for its whole time limit. A mark younger than a
        lease is left alone: its worker may be about to claim the attempt.
        """
        mark = in_progress_key_prefix + attempt_id
        try:
            async with asyncio.timeout(_ENQUEUE_SECONDS):
                left_ms = await self._redis.pttl(mark)
                if left_ms > 0 and self._marked_ms - left_ms > self._silence_ms:
                    await self._redis.delete(mark)
        except (RedisError, OSError) as error:
            _log.warning("redis does not answer", error=repr(error))
            return False
        return await self.enqueue(attempt_id)

    async def close(self) -> None:
        await self._redis.aclose(close_connection_pool=True)


async def sweep(store: Store, queue: Queue) -> int:
    """Enqueue every attempt that waits for a worker; returns how many. Stops at the first failure."""
    count = 0
    for attempt_id in await store.due():
        if not await queue.bring_back(attempt_id):
            break
        count += 1
    return count


async def sweep_for_ever(store: Store, queue: Queue, seconds: float) -> None:
    """Sweep immediately, then every `seconds`."""
    while True:
        try:
            await sweep(store, queue)
        except (SQLAlchemyError, OSError) as error:
            _log.warning("sweep failed; the database does not answer", error=repr(error))
        await asyncio.sleep(seconds)
