"""Redis: the one that is set, or whether one of our own can be started."""

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


async def look(settings: Settings) -> AsyncIterator[Check]:
    if settings.redis_url is not None:
        async for check in _of(settings.redis_url.get_secret_value(), f"the one of {PREFIX}REDIS_URL"):
            yield check
        return
    try:
        url = running_redis(settings) if settings.data_dir.is_dir() else None
        if url is not None:
            async for check in _of(url, "the embedded one, which runs"):
                yield check
            return
        with tempfile.TemporaryDirectory(prefix="selfheal-") as folder:
            async with embedded(Path(folder)) as url:
                async for check in _of(url, f"an embedded one could be started ({server_binary()})"):
                    yield check
    except RedisMissing as missing:
        yield Check("redis", "answers", "failed", "there is no Redis", str(missing))


async def _of(url: str, which: str) -> AsyncIterator[Check]:
    client: Redis = Redis.from_url(url, socket_timeout=SECONDS, socket_connect_timeout=SECONDS)
    key = f"selfheal:doctor:{token_hex(8)}"
    try:
        await client.set(key, b"1", ex=60)
        await client.delete(key)
        about = await client.info()
    except (RedisError, OSError) as error:
        fix = f"see that it runs, that its password is right, and that {PREFIX}REDIS_URL names it"
        yield Check("redis", "answers", "failed", f"{which}: {type(error).__name__}: {str(error)[:200]}", fix)
        return
    finally:
        await client.aclose()
    yield Check("redis", "answers", "ok", f"version {about.get('redis_version', 'unknown')}, {which}; it can be written")
    policy = str(about.get("maxmemory_policy", "noeviction"))
    if policy != "noeviction" and about.get("maxmemory"):
        seen = f"when its memory is full it forgets what waits ({policy}); the sweeper brings it back after some seconds"
        yield Check("redis", "eviction", "warning", seen, "set maxmemory-policy to noeviction in its configuration")
