"""Health checks: each part is checked with a deadline; a failure is one of a few fixed sentences.

The results are public, so they never contain an error's own message. Nothing is created or migrated here.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Awaitable, Mapping
from typing import Final

import structlog
from redis.asyncio import Redis
from redis.exceptions import AuthenticationError, RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError
from sqlalchemy import text
from sqlalchemy.exc import OperationalError, ProgrammingError

from app.queue.redis import ping, running_redis
from app.settings import Settings
from app.store.database import address
from app.store.database.address import Sqlite
from app.store.database.database import Database, newest_migration

DATABASE_SECONDS: Final = 2.0
REDIS_SECONDS: Final = 1.0
CACHE_SECONDS: Final = 1.0  # how long results are reused
_NO_REDIS: Final = "no process runs the embedded Redis of this data folder"
log = structlog.get_logger(__name__)


class Health:
    """Checks the database, its migrations and Redis, within a few seconds and at most once a second."""

    def __init__(self, database: Database, redis_url: str | None) -> None:
        """`redis_url` is None if an embedded Redis is configured but not running."""
        self._database, self._redis_url = database, redis_url
        self._newest = newest_migration()
        self._asking = asyncio.Lock()
        self._cached: tuple[float, Mapping[str, str]] | None = None

    async def parts(self) -> Mapping[str, str]:
        """Each dependency, and why it is unhealthy; "" if it is healthy."""
        async with self._asking:
            now = time.monotonic()
            if self._cached is None or now - self._cached[0] > CACHE_SECONDS:
                parts = await asyncio.gather(
                    _within(DATABASE_SECONDS, "database", self._answers()),
                    _within(DATABASE_SECONDS, "migrations", self._is_current()),
                    _within(REDIS_SECONDS, "redis", self._pings()),
                )
                self._cached = time.monotonic(), dict(zip(("database", "migrations", "redis"), parts, strict=True))
            return self._cached[1]

    async def database_answers(self) -> bool:
        return not (await self.parts())["database"]

    async def _answers(self) -> str:
        async with self._database.read() as session:
            await session.execute(text("SELECT 1"))
        return ""

    async def _is_current(self) -> str:
        async with self._database.read() as session:
            found = list(await session.scalars(text("SELECT version_num FROM alembic_version")))
        return "" if found == [self._newest] else "the tables are from another version of Selfheal"

    async def _pings(self) -> str:
        if self._redis_url is None:
            return _NO_REDIS
        await ping(self._redis_url)
        return ""


async def of_worker(settings: Settings) -> Mapping[str, str]:
    """Checks from outside the worker process: database, Redis, and whether a worker on this host takes work.

    Raises `StoreError` for an invalid database URL and `RedisMissing` for an unreadable data folder: waiting fixes neither.
    """
    redis_url = running_redis(settings)
    where = address.read(settings.database)
    if isinstance(where, Sqlite) and not await asyncio.to_thread(where.path.exists):  # connecting would create it
        missing = {"database": "there is no database yet; start `selfheal serve` or `selfheal worker`"}
        return missing if redis_url is not None else {**missing, "redis": _NO_REDIS}
    database = Database.connect(settings.database)
    try:
        parts = dict(await Health(database, redis_url).parts())
    finally:
        await database.close()
    if redis_url is not None:
        parts["worker"] = await _within(REDIS_SECONDS, "worker", _takes_work(redis_url))
    return parts


def worker_key(name: str) -> str:
    """The Redis key that the worker with that name (host and process) renews every few seconds."""
    return f"selfheal:worker:{name}"


async def _takes_work(redis_url: str) -> str:
    client: Redis = Redis.from_url(redis_url, socket_timeout=REDIS_SECONDS, socket_connect_timeout=REDIS_SECONDS)
    try:
        async for _ in client.scan_iter(match=worker_key(f"{socket.gethostname()}:*"), count=1000):
            return ""
    finally:
        with contextlib.suppress(RedisError, OSError):
            await client.aclose()
    return "no worker on this host takes work: none is running, or it hangs"


async def _within(seconds: float, part: str, check: Awaitable[str]) -> str:
    """The check's result, or a fixed sentence for its error, which is logged."""
    try:
        async with asyncio.timeout(seconds):
            return await check
    except Exception as error:  # noqa: BLE001 - drivers raise many kinds, and every failure means unhealthy
        reason = _reason(error, seconds)
        log.warning("not ready", part=part, reason=reason, error=f"{type(error).__name__}: {error}")
        return reason


def _reason(error: Exception, seconds: float) -> str:
    match error:
        case TimeoutError() | RedisTimeoutError():
            return f"no answer within {seconds:g} s"
        case AuthenticationError():
            return "the password was rejected"
        case ProgrammingError():
            return "Selfheal's tables are missing"
        case OperationalError() if "no such table" in str(error.orig):
            return "Selfheal's tables are missing"
    return "cannot be reached"
