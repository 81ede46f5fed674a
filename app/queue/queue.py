"""The way from the database to the workers: arq over Redis carries ids, nothing else.

Redis may be slow, empty or away at any time. So enqueueing is short and never fails the caller, and the sweeper brings
what is missing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Final

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
from app.together import Together

FUNCTION: Final = "heal"
_ENQUEUE_SECONDS = 1.0
_MOST = 200  # ids in one round trip
_ENQUEUE: Final = """
local jobs = #KEYS - 1
for i = 1, jobs do
    redis.call('SET', KEYS[i + 1], ARGV[i + jobs + 2], 'PX', ARGV[2], 'NX')
    redis.call('ZADD', KEYS[1], 'NX', ARGV[1], ARGV[i + 2])
end
"""
"""Keys: the queue, the jobs'. Arguments: now and how long to keep a job, in ms; the jobs' ids; the jobs.

arq keeps a job and its place in the queue until it has finished and then drops both at once, so that both are there or neither
is: a script runs alone. As commands of one transaction the same took redis-py six times as long.
"""
_log = structlog.get_logger(__name__)

serialize = msgspec.json.encode
"""Job to bytes. JSON: with pickle, arq's default, whoever can write to Redis can run code in the worker."""
deserialize = msgspec.json.decode


def job_seconds(settings: Settings) -> float:
    """arq's own limit on a job; the lease's is shorter, so that a try which takes too long is counted."""
    return terms_of(settings).longest + 60


class Queue:
    """Puts attempts' ids into Redis. It connects when it is first used, and again whenever the connection is gone."""

    def __init__(self, redis: ArqRedis, settings: Settings) -> None:
        self._redis = redis
        # arq marks a job for its limit and ten seconds.
        self._marked_ms = (job_seconds(settings) + 10) * 1000
        self._silence_ms = settings.lease_seconds * 1000
        self._ids: Together[str, None] = Together(self._put, _MOST)

    @classmethod
    def to(cls, url: str, settings: Settings) -> Queue:
        """`url`: redis://, rediss:// or unix://. Nothing is connected yet."""
        pool: ConnectionPool = ConnectionPool.from_url(
            url, socket_timeout=_ENQUEUE_SECONDS, socket_connect_timeout=_ENQUEUE_SECONDS
        )
        return cls(ArqRedis(pool, job_serializer=serialize, job_deserializer=deserialize), settings)

    async def enqueue(self, attempt_id: str) -> bool:
        """Enqueue unless it is queued already; False when Redis did not take it within two seconds, however many ask."""
        try:
            async with asyncio.timeout(2 * _ENQUEUE_SECONDS):
                await self._ids.ask(attempt_id)
        except (RedisError, OSError) as error:
            _log.warning("not enqueued; the sweeper will", attempt=attempt_id, error=repr(error))
            return False
        return True

    async def _put(self, attempt_ids: Sequence[str]) -> Sequence[None]:
        """What arq's `enqueue_job` does for one job in three round trips, for many in one."""
        now_ms = time.time_ns() // 1_000_000
        keys = [job_key_prefix + attempt_id for attempt_id in attempt_ids]
        jobs = [serialize_job(FUNCTION, (attempt_id,), {}, None, now_ms, serializer=serialize) for attempt_id in attempt_ids]
        async with asyncio.timeout(_ENQUEUE_SECONDS):
            await self._redis.execute_command(  # type: ignore[no-untyped-call]
                "EVAL", _ENQUEUE, 1 + len(keys), default_queue_name, *keys, now_ms, expires_extra_ms, *attempt_ids, *jobs
            )
        return [None] * len(attempt_ids)

    async def bring_back(self, attempt_id: str) -> bool:
        """Enqueue an attempt that nobody works on, says the database. False when Redis did not take it.

        A dead worker leaves arq's mark "in progress", for which arq would wait as long as a job may take. A mark that is
        younger than a lease's silence is left alone: its worker may be about to claim.
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
    """Enqueue every attempt that waits for a worker; how many Redis took. Stops at the first that it does not take."""
    brought = 0
    for attempt_id in await store.due():
        if not await queue.bring_back(attempt_id):
            break
        brought += 1
    return brought


async def sweep_for_ever(store: Store, queue: Queue, seconds: float) -> None:
    """Sweep now and every so many seconds."""
    while True:
        try:
            await sweep(store, queue)
        except (SQLAlchemyError, OSError) as error:
            _log.warning("not swept; the database does not answer", error=repr(error))
        await asyncio.sleep(seconds)
