"""Whether this service can do its work: each part is asked, with a deadline of its own, and says in a fixed sentence why not.

The answers are public: an error's own words never get into them. Nothing is created or migrated here.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
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
FRESH_SECONDS: Final = 1.0  # an answer is as good for so long, however often it is asked for
_NO_REDIS: Final = "no process runs the embedded Redis of this data folder"
log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Part:
    """One thing that the service needs; `reason` is empty where it is as it should be."""

    reason: str = ""

    @property
    def ok(self) -> bool:
        return not self.reason


class Health:
    """Asks the database, its migrations and Redis. Every question is answered within a few seconds, and asked once a second."""

    def __init__(self, database: Database, redis_url: str | None) -> None:
        """`redis_url` is None where an embedded Redis is used and none runs."""
        self._database, self._redis_url = database, redis_url
        self._newest = newest_migration()
        self._asking = asyncio.Lock()
        self._known: tuple[float, Mapping[str, Part]] | None = None

    async def parts(self) -> Mapping[str, Part]:
        async with self._asking:
            now = time.monotonic()
            if self._known is None or now - self._known[0] > FRESH_SECONDS:
                parts = await asyncio.gather(
                    _within(DATABASE_SECONDS, "database", self._answers()),
                    _within(DATABASE_SECONDS, "migrations", self._is_current()),
                    _within(REDIS_SECONDS, "redis", self._pings()),
                )
                self._known = time.monotonic(), dict(zip(("database", "migrations", "redis"), parts, strict=True))
            return self._known[1]

    async def database_answers(self) -> bool:
        return (await self.parts())["database"].ok

    async def _answers(self) -> str:
        async with self._database.read() as session:
            await session.execute(text("SELECT 1"))
        return ""

    async def _is_current(self) -> str:
        async with self._database.read() as session:
            found = list(await session.scalars(text("SELECT version_num FROM alembic_version")))
        return "" if found == [self._newest] else "its tables are of another version of Selfheal than this process"

    async def _pings(self) -> str:
        if self._redis_url is None:
            return _NO_REDIS
        await ping(self._redis_url)
        return ""


async def of_worker(settings: Settings) -> Mapping[str, Part]:
    """The same of this machine's worker, asked from outside of it: database, Redis, and whether it takes work.

    Raises `StoreError` where the database's URL is none, `RedisMissing` where the data folder cannot be looked into: no
    waiting mends either.
    """
    redis_url = running_redis(settings)
    where = address.read(settings.database)
    if isinstance(where, Sqlite) and not await asyncio.to_thread(where.path.exists):  # opening it would make it
        missing = {"database": Part("there is no database yet: no process has made it")}
        return missing if redis_url is not None else {**missing, "redis": Part(_NO_REDIS)}
    database = Database.connect(settings.database)
    try:
        parts = dict(await Health(database, redis_url).parts())
    finally:
        await database.close()
    if redis_url is not None:
        parts["worker"] = await _within(REDIS_SECONDS, "worker", _takes_work(redis_url))
    return parts


def worker_key(name: str) -> str:
    """Where in Redis the worker of that name (host and process) says every few seconds that it takes work."""
    return f"selfheal:worker:{name}"


async def _takes_work(redis_url: str) -> str:
    client: Redis = Redis.from_url(redis_url, socket_timeout=REDIS_SECONDS, socket_connect_timeout=REDIS_SECONDS)
    try:
        async for _ in client.scan_iter(match=worker_key(f"{socket.gethostname()}:*"), count=1000):
            return ""
    finally:
        with contextlib.suppress(RedisError, OSError):
            await client.aclose()
    return "no worker of this host takes work: none is running, or it hangs"


async def _within(seconds: float, part: str, asking: Awaitable[str]) -> Part:
    """What was asked, or a sentence why there is no answer; its own words go to the log."""
    try:
        async with asyncio.timeout(seconds):
            return Part(await asking)
    except Exception as error:  # noqa: BLE001 - drivers have trees of their own, and whoever asks needs an answer
        reason = _reason(error, seconds)
        log.warning("not ready", part=part, reason=reason, error=f"{type(error).__name__}: {error}")
        return Part(reason)


def _reason(error: Exception, seconds: float) -> str:
    match error:
        case TimeoutError() | RedisTimeoutError():
            return f"it does not answer within {seconds:g} s"
        case AuthenticationError():
            return "it refuses our password"
        case ProgrammingError():
            return "it has no tables of Selfheal"
        case OperationalError() if "no such table" in str(error.orig):
            return "it has no tables of Selfheal"
    return "it cannot be reached"
