"""The queue from the database to the workers: arq over Redis carries ids of attempts and of pull requests, nothing else.

It has two lanes: attempts wait for a worker's slot, while pull requests with new commands are looked at beside them.

Redis may be slow, empty or unavailable at any time. So enqueueing is short and never fails the caller, and the sweeper enqueues
what is missing.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Generic, TypeVar

import msgspec
import structlog
from arq.connections import ArqRedis
from arq.constants import default_queue_name, expires_extra_ms, in_progress_key_prefix, job_key_prefix
from arq.jobs import serialize_job
from redis.asyncio import ConnectionPool
from redis.exceptions import RedisError
from sqlalchemy.exc import SQLAlchemyError

from app.queue.budget import WriteBudget
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


@dataclass(frozen=True, slots=True)
class Lane:
    """One arq queue and its function, which gets a job's id."""

    function: str
    queue: str


ATTEMPTS: Final = Lane("heal", default_queue_name)
COMMANDS: Final = Lane("decide", f"{default_queue_name}:commands")
_ENQUEUE_SECONDS = 1.0
_MAX_BATCH = 200  # ids in one round trip
_log = structlog.get_logger(__name__)

serialize = msgspec.json.encode
"""Encodes a job as JSON: with pickle, arq's default, anyone who can write to Redis could run code in the worker."""
deserialize = msgspec.json.decode


def commands_id(repository_id: int, pull_number: int) -> str:
    """The job that decides the commands of a pull request; `pull_of` reads it."""
    return f"{repository_id}:{pull_number}"


def pull_of(job_id: str) -> tuple[int, int]:
    """Repository id and number of the pull request."""
    repository_id, _, pull_number = job_id.partition(":")
    return int(repository_id), int(pull_number)


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
        self._ids: dict[Lane, Batcher[str, None]] = {
            lane: Batcher(partial(self._put, lane), _MAX_BATCH) for lane in (ATTEMPTS, COMMANDS)
        }

    @classmethod
    def to(cls, url: str, settings: Settings) -> Queue:
        """`url`: redis://, rediss:// or unix://. Connects lazily."""
        pool: ConnectionPool = ConnectionPool.from_url(
            url, socket_timeout=_ENQUEUE_SECONDS, socket_connect_timeout=_ENQUEUE_SECONDS
        )
        return cls(ArqRedis(pool, job_serializer=serialize, job_deserializer=deserialize), settings)

    async def enqueue(self, attempt_id: str) -> bool:
        """Enqueue unless already queued; False if Redis does not accept it within two seconds."""
        return await self._enqueue(ATTEMPTS, attempt_id)

    async def enqueue_commands(self, repository_id: int, pull_number: int) -> bool:
        """Have a pull request's pending commands decided; as `enqueue`."""
        return await self._enqueue(COMMANDS, commands_id(repository_id, pull_number))

    async def _enqueue(self, lane: Lane, job_id: str) -> bool:
        try:
            async with asyncio.timeout(2 * _ENQUEUE_SECONDS):
                await self._ids[lane].submit(job_id)
        except (RedisError, OSError) as error:
            _log.warning("not enqueued; the sweeper will retry", job=job_id, error=repr(error))
            return False
        return True

    async def _put(self, lane: Lane, job_ids: Sequence[str]) -> Sequence[None]:
        """Does for many jobs in one transaction what arq's `enqueue_job` does for one job in three round trips."""
        now_ms = time.time_ns() // 1_000_000
        async with asyncio.timeout(_ENQUEUE_SECONDS), self._redis.pipeline(transaction=True) as pipe:
            for job_id in job_ids:
                job = serialize_job(lane.function, (job_id,), {}, None, now_ms, serializer=serialize)
                pipe.set(job_key_prefix + job_id, job, px=expires_extra_ms, nx=True)
            pipe.zadd(lane.queue, dict.fromkeys(job_ids, now_ms), nx=True)
            await pipe.execute()
        return [None] * len(job_ids)

    async def bring_back(self, attempt_id: str) -> bool:
        """Enqueue an attempt that no worker has, according to the database. False if Redis does not accept it.

        A dead worker leaves arq's "in progress" mark, which blocks the job for its whole time limit. A mark younger than a
        lease is left alone: its worker may be about to claim the attempt.
        """
        return await self._unmark(attempt_id) and await self.enqueue(attempt_id)

    async def bring_back_commands(self, repository_id: int, pull_number: int) -> bool:
        """Enqueue a pull request with pending commands; as `bring_back`."""
        known = commands_id(repository_id, pull_number)
        return await self._unmark(known) and await self._enqueue(COMMANDS, known)

    async def _unmark(self, job_id: str) -> bool:
        """Remove a dead worker's mark. False if Redis does not answer."""
        mark = in_progress_key_prefix + job_id
        try:
            async with asyncio.timeout(_ENQUEUE_SECONDS):
                left_ms = await self._redis.pttl(mark)
                if left_ms > 0 and self._marked_ms - left_ms > self._silence_ms:
                    await self._redis.delete(mark)
        except (RedisError, OSError) as error:
            _log.warning("redis does not answer", error=repr(error))
            return False
        return True

    def write_budget(self) -> WriteBudget:
        """The writes to GitHub that all workers of this Redis share, over this queue's connections."""
        return WriteBudget(self._redis)

    async def close(self) -> None:
        await self._redis.aclose(close_connection_pool=True)


async def sweep(store: Store, queue: Queue) -> int:
    """Enqueue every attempt that waits for a worker; returns how many. Stops at the first failure.

    Pull requests with pending commands come first.
    """
    for repository_id, pull_number in await store.pulls_with_commands():
        if not await queue.bring_back_commands(repository_id, pull_number):
            return 0
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
