"""The Redis that is set, one that is not there, and one of our own."""

from __future__ import annotations

from redis.asyncio import Redis

from app.cli.doctor import checks
from app.cli.doctor.checks import Check
from app.settings import Settings, load


async def looked(settings: Settings) -> dict[str, Check]:
    return {check.name: check async for check in checks.check_redis(settings)}


async def test_one_that_is_set_is_written_and_left_as_it_was(redis_url: str) -> None:
    found = await looked(load(redis_url=redis_url))
    assert [check.status for check in found.values()] == ["ok"]
    client: Redis = Redis.from_url(redis_url)
    assert await client.dbsize() == 0
    await client.aclose()


async def test_one_that_forgets_when_it_is_full_is_a_warning(redis_url: str) -> None:
    client: Redis = Redis.from_url(redis_url)
    await client.config_set("maxmemory", "100mb")
    await client.config_set("maxmemory-policy", "allkeys-lru")
    await client.aclose()
    found = await looked(load(redis_url=redis_url))
    assert found["eviction"].status == "warning"


async def test_one_that_is_away_fails_without_its_password() -> None:
    found = await looked(load(redis_url="redis://:hunter2hunter2@127.0.0.1:1/0"))
    assert found["answers"].status == "failed"
    assert "hunter2hunter2" not in found["answers"].seen


async def test_without_a_setting_one_of_our_own_is_tried(settings: Settings, redis_url: str) -> None:
    found = await looked(settings)
    assert "embedded, can be started" in found["answers"].seen
    assert not settings.data_dir.exists()
