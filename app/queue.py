"""The way from the database to the workers: arq over Redis carries ids, nothing else.

Redis may be slow, empty or away at any time. So enqueueing is short and never fails the caller, and the sweeper brings
what is missing.
"""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec
import structlog
from arq.connections import ArqRedis, RedisSettings, create_pool
from arq.constants import default_queue_name, in_progress_key_prefix
from redis.asyncio import ConnectionPool, UnixDomainSocketConnection
from redis.exceptions import RedisError

from app.store.store import Store

FUNCTION: Final = "heal"
_ENQUEUE_SECONDS = 1.0
_log = structlog.get_logger(__name__)

serialize = msgspec.json.encode
"""Job to bytes. JSON: with pickle, arq's default, whoever can write to Redis can run code in the worker."""
deserialize = msgspec.json.decode


class Queue:
    """Puts attempts' ids into Redis. It connects when it is first used, and again whenever the connection is gone."""

    def __init__(self, redis: ArqRedis) -> None:
        self._redis = redis

    @classmethod
    def to(cls, url: str) -> Queue:
        """`url`: redis://, rediss:// or unix://. Nothing is connected yet."""
        pool: ConnectionPool = ConnectionPool.from_url(
            url, socket_timeout=_ENQUEUE_SECONDS, socket_connect_timeout=_ENQUEUE_SECONDS
        )
        return cls(ArqRedis(pool, job_serializer=serialize, job_deserializer=deserialize))

    async def enqueue(self, attempt_id: str) -> bool:
        """Enqueue unless it is queued already; False when Redis did not take it within a second."""
        try:
            async with asyncio.timeout(_ENQUEUE_SECONDS):
                await self._redis.enqueue_job(FUNCTION, attempt_id, _job_id=attempt_id)
        except (RedisError, OSError) as error:
            _log.warning("not enqueued; the sweeper will", attempt=attempt_id, error=repr(error))
            return False
        return True

    async def release(self, attempt_id: str) -> None:
        """Forget that a worker is on the job: arq itself waits for the whole job timeout after a worker died."""
        async with asyncio.timeout(_ENQUEUE_SECONDS):
            await self._redis.delete(in_progress_key_prefix + attempt_id)

    async def close(self) -> None:
        await self._redis.aclose(close_connection_pool=True)
