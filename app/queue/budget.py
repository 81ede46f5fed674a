"""The writes to GitHub that all workers share, in Redis; see `SharedBudget` in `app/github/retries.py`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import structlog
from redis.asyncio import Redis
from redis.exceptions import RedisError

from app.github.retries import Rate

_SECONDS = 1.0
_FOREVER = 7200.0  # seconds; by then, every rate is free again
# `WritePacer.reserve` (or, with `blocked` seconds, `block`) as one atomic step, by Redis's clock: workers' clocks differ.
_SCRIPT = f"""
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local longest, blocked, seconds, free_at = tonumber(ARGV[1]), tonumber(ARGV[2]), 0, {{}}
for i = 3, #ARGV, 2 do
    local burst, interval = tonumber(ARGV[i]) * tonumber(ARGV[i + 1]), tonumber(ARGV[i + 1])
    local at = tonumber(redis.call('HGET', KEYS[1], i) or now)
    if blocked > 0 then
        free_at[i] = math.max(at, now + blocked + burst)
    else
        free_at[i] = math.max(at, now) + interval
    end
    seconds = math.max(seconds, free_at[i] - burst - now)
end
if seconds <= longest then
    for i, at in pairs(free_at) do
        redis.call('HSET', KEYS[1], i, string.format('%.6f', at))
    end
    redis.call('EXPIRE', KEYS[1], {_FOREVER:.0f})
end
return string.format('%.6f', seconds)
"""
_log = structlog.get_logger(__name__)


class WriteBudget:
    """Without Redis, each worker paces its own writes: none is lost or fails for that."""

    def __init__(self, redis: Redis) -> None:
        self._script = redis.register_script(_SCRIPT)
        self._is_away = False

    async def reserve(self, installation_id: int, rates: Sequence[Rate], longest: float) -> float | None:
        return await self._run(installation_id, rates, longest)

    async def block(self, installation_id: int, rate: Rate, seconds: float) -> None:
        await self._run(installation_id, (rate,), _FOREVER, seconds)

    async def _run(self, installation_id: int, rates: Sequence[Rate], longest: float, blocked: float = 0.0) -> float | None:
        numbers = [longest, blocked, *(number for rate in rates for number in (rate.burst, rate.interval))]
        try:
            async with asyncio.timeout(_SECONDS):
                seconds = float(await self._script(keys=[f"selfheal:writes:{installation_id}"], args=numbers))
        except (RedisError, OSError) as error:
            if not self._is_away:
                _log.warning("redis does not answer; each worker paces its own writes to GitHub", error=repr(error))
            self._is_away = True
            return None
        self._is_away = False
        return seconds
