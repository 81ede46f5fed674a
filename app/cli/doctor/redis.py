"""Checks Redis: the configured server, or that an embedded one runs or can be started."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from secrets import token_hex

from redis.asyncio import Redis
from redis.exceptions import RedisError

from app.cli.doctor.checks import Check
from app.queue.redis import RedisMissing, embedded, running_redis, server_binary
from app.settings import PREFIX, Settings

SECONDS = 5.0


async def run_checks(settings: Settings) -> AsyncIterator[Check]:
    if settings.redis_url is not None:
        async for check in _check_server(settings.redis_url.get_secret_value(), f"from {PREFIX}REDIS_URL"):
            yield check
        return
    try:
        url = running_redis(settings) if settings.data_dir.is_dir() else None
        if url is not None:
            async for check in _check_server(url, "embedded, running"):
                yield check
            return
        with tempfile.TemporaryDirectory(prefix="selfheal-") as folder:
            async with embedded(Path(folder)) as url:
                async for check in _check_server(url, f"embedded, can be started ({server_binary()})"):
                    yield check
    except RedisMissing as missing:
        yield Check("redis", "answers", "failed", "no Redis found", str(missing))


async def _check_server(url: str, source: str) -> AsyncIterator[Check]:
    client: Redis = Redis.from_url(url, socket_timeout=SECONDS, socket_connect_timeout=SECONDS)
    key = f"selfheal:doctor:{token_hex(8)}"
    try:
        await client.set(key, b"1", ex=60)
        await client.delete(key)
        about = await client.info()
    except (RedisError, OSError) as error:
        fix = f"check that it runs, that its password is correct, and that {PREFIX}REDIS_URL points to it"
        yield Check("redis", "answers", "failed", f"{source}: {type(error).__name__}: {str(error)[:200]}", fix)
        return
    finally:
        await client.aclose()
    yield Check("redis", "answers", "ok", f"version {about.get('redis_version', 'unknown')} ({source}), writable")
    policy = str(about.get("maxmemory_policy", "noeviction"))
    if policy != "noeviction" and about.get("maxmemory"):
        seen = f"drops queued ids when memory is full (maxmemory-policy {policy}); the sweeper requeues them after some seconds"
        yield Check("redis", "eviction", "warning", seen, "set maxmemory-policy to noeviction in its configuration")
