"""The worker: takes attempts' ids from Redis and runs them, a few at a time, until it is stopped.

It survives an outage of Redis. On a stop, running attempts are interrupted and their leases put them back into the queue.
`heal` is passed in: this module does not know what an attempt does.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Set
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import structlog
from arq.connections import ArqRedis
from arq.worker import Worker, func
from redis.asyncio import ConnectionPool
from redis.asyncio.retry import Retry
from redis.backoff import ConstantBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

from app.clock import SystemClock
from app.observability import log
from app.queue.queue import (
    ATTEMPTS,
    COMMANDS,
    Lane,
    Queue,
    deserialize,
    job_seconds,
    pull_of,
    serialize,
    sweep_for_ever,
)
from app.queue.redis import open_redis
from app.service.health import worker_key
from app.settings import Settings
from app.stopping import cancel_and_wait
from app.store.leases.claims import NotClaimed
from app.store.leases.heartbeat import LeaseLost
from app.store.leases.leases import AttemptCancelled
from app.store.store import Store, open_store

if TYPE_CHECKING:
    from arq.typing import WorkerCoroutine

Heal = Callable[[str], Awaitable[None]]
"""Claims and heals the attempt with that id. Its exceptions are logged; the lease has recorded them before."""

Decide = Callable[[int, int], Awaitable[None]]
"""Decides the pending commands of a pull request: the repository's id and the number. Its exceptions are logged."""


@dataclass(frozen=True, slots=True)
class Jobs:
    """What a worker does: attempts in its slots, commands beside them."""

    heal: Heal
    decide: Decide


OpenJobs = Callable[[Settings, Store, Queue], AbstractAsyncContextManager[Jobs]]
"""Opens what the jobs need, for the worker's lifetime."""

RunOne = Callable[[str], Awaitable[None]]
_POLL_SECONDS = 0.02  # on average, an attempt waits half of this for an idle worker
_HEALTH_SECONDS = 10
_COMMAND_JOBS = 4  # pull requests whose commands are decided at once
_REDIS_RETRIES = 30  # a second apart: Redis can restart without disturbing running attempts
_DRAIN_SECONDS = 20.0
_CLOSE_SECONDS = 2.0
_log = structlog.get_logger(__name__)


def worker_name() -> str:
    """This process's name in leases: host and process id."""
    return f"{socket.gethostname()}:{os.getpid()}"


async def work(settings: Settings, open_jobs: OpenJobs, stop: asyncio.Event) -> None:
    """The whole worker process: opens the store, Redis and what healing needs; works until `stop` is set.

    Raises `StoreError`, `RedisMissing` and what `open_jobs` raises, when it cannot start.
    """
    async with (
        open_store(settings, SystemClock()) as store,
        open_redis(settings) as redis_url,
        _opened(Queue.to(redis_url, settings)) as queue,
        open_jobs(settings, store, queue) as jobs,
    ):
        working = asyncio.create_task(run_worker(settings, store, redis_url, jobs))
        stopping = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            working.cancel()
            stopping.cancel()
            await asyncio.wait({working, stopping})
    if not working.cancelled():
        working.result()


@contextlib.asynccontextmanager
async def _opened(queue: Queue) -> AsyncIterator[Queue]:
    try:
        yield queue
    finally:
        await queue.close()


async def run_worker(settings: Settings, store: Store, redis_url: str, jobs: Jobs) -> None:
    """Work and sweep until cancelled; reconnects with backoff after a long outage of Redis."""
    queue = Queue.to(redis_url, settings)
    sweeping = asyncio.create_task(sweep_for_ever(store, queue, settings.sweep_seconds))
    working = {
        asyncio.create_task(_work_for_ever(settings, redis_url, ATTEMPTS, partial(_heal_one, jobs.heal))),
        asyncio.create_task(_work_for_ever(settings, redis_url, COMMANDS, partial(_decide_one, jobs.decide))),
    }
    try:
        await asyncio.wait({sweeping, *working}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for lane in working:
            lane.cancel()  # once: it releases running attempts, which takes time
        await cancel_and_wait(sweeping)
        await asyncio.wait(working)
        await queue.close()
    for task in (sweeping, *working):
        if not task.cancelled():
            task.result()


async def _work_for_ever(settings: Settings, redis_url: str, lane: Lane, run_one: RunOne) -> None:
    pause = 1.0
    while True:
        began = asyncio.get_running_loop().time()
        try:
            async with _arq_worker(settings, redis_url, lane, run_one) as worker:
                await _poll(worker)
        except (RedisError, OSError) as error:
            _log.warning("redis is unavailable", error=repr(error), again_in=pause)
        # From arq's bookkeeping of one job, which must not end the process that runs others.
        except (KeyError, RuntimeError):
            _log.exception("the arq worker stopped", again_in=pause)
        lasted = asyncio.get_running_loop().time() - began
        pause = 1.0 if lasted > 60 else min(pause * 2, 15.0)
        await asyncio.sleep(pause)


async def _poll(worker: Worker) -> None:
    """Run jobs until cancelled. Raises the exception that ends arq's loop."""
    polling = asyncio.create_task(worker.async_run())
    try:
        await asyncio.wait({polling})
    finally:
        await cancel_and_wait(polling)
    polling.result()


@contextlib.asynccontextmanager
async def _arq_worker(settings: Settings, redis_url: str, lane: Lane, run_one: RunOne) -> AsyncIterator[Worker]:
    is_closing, working = False, set[asyncio.Future[None]]()

    async def run(_: dict[Any, Any], job_id: str) -> None:
        if is_closing:  # its cancellation was lost
            raise asyncio.CancelledError
        working.add(done := asyncio.get_running_loop().create_future())
        try:
            await run_one(job_id)
        finally:
            working.discard(done)
            done.set_result(None)

    pool: ConnectionPool = ConnectionPool.from_url(
        redis_url,
        socket_timeout=5,
        socket_connect_timeout=5,
        retry=Retry(_EverySecond(), _REDIS_RETRIES),
        retry_on_error=[RedisConnectionError, RedisTimeoutError, OSError],
    )
    worker = Worker(
        [
            func(
                cast("WorkerCoroutine", run),
                name=lane.function,
                timeout=job_seconds(settings),
                keep_result=0,
                max_tries=1_000_000,
            )
        ],
        redis_pool=ArqRedis(pool, job_serializer=serialize, job_deserializer=deserialize),
        queue_name=lane.queue,
        handle_signals=False,
        max_jobs=settings.worker_jobs if lane == ATTEMPTS else _COMMAND_JOBS,
        poll_delay=_POLL_SECONDS,
        health_check_interval=_HEALTH_SECONDS,
        health_check_key=worker_key(worker_name()) if lane == ATTEMPTS else None,
        job_serializer=serialize,
        job_deserializer=deserialize,
        log_results=False,
    )
    try:
        yield worker
    finally:
        is_closing = True
        closing = asyncio.create_task(_close(worker, pool, working))
        try:
            await asyncio.shield(closing)
        except asyncio.CancelledError:  # stopped while Redis is unavailable
            await closing
            raise


async def _close(worker: Worker, pool: ConnectionPool, working: Set[asyncio.Future[None]]) -> None:
    """Cancel the jobs and wait until their attempts are released. Without Redis, arq's own `close` would never return."""
    closing = asyncio.create_task(worker.close())
    await asyncio.sleep(0)  # it cancels the jobs at once
    if working:
        await asyncio.wait(set(working), timeout=_DRAIN_SECONDS)
    await asyncio.wait({closing}, timeout=_CLOSE_SECONDS)
    await cancel_and_wait(closing)
    with contextlib.suppress(RedisError, OSError, RuntimeError, asyncio.CancelledError):
        closing.result()
    with contextlib.suppress(RedisError, OSError, RuntimeError):
        await pool.disconnect()


class _EverySecond(ConstantBackoff):
    """Retries a Redis command every second; logs the first failure only."""

    def __init__(self) -> None:
        super().__init__(1)

    def compute(self, failures: int) -> float:
        if failures == 1:
            _log.warning("redis does not answer; retrying every second", for_seconds=_REDIS_RETRIES)
        return super().compute(failures)


async def _decide_one(decide: Decide, job_id: str) -> None:
    try:
        await decide(*pull_of(job_id))
    except Exception:  # noqa: BLE001 - any bug or outage; the commands stay pending, and the sweeper enqueues them again
        _log.exception("commands not decided", job=job_id)


async def _heal_one(heal: Heal, attempt_id: str) -> None:
    with log.bind_ids(attempt=attempt_id):
        try:
            await heal(attempt_id)
        except NotClaimed as refusal:
            _log.info("attempt skipped", reason=str(refusal))
        except AttemptCancelled as cancelled:
            _log.info("cancelled", outcome=cancelled.outcome, reason=cancelled.reason)
        except LeaseLost as lost:
            _log.warning("lease lost", reason=str(lost))
        except Exception:  # noqa: BLE001 - any bug of one attempt; the worker goes on with the others
            _log.exception("try failed")
