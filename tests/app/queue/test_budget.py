"""All workers together stay within what GitHub lets one installation write; here each worker is a client of its own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest
import structlog

from app.github.client import GitHub
from app.github.errors import RateLimited
from app.github.repository import Repository
from app.github.retries import Rate, RetryPolicy
from app.github.types import PUBLISHING
from app.queue.budget import WriteBudget
from app.queue.queue import Queue
from app.settings import load
from tests.standins.github import GitHub as StandIn
from webhooks.intake import RepositoryRef

NAME = "acme/sample"
EVERY_SECOND = Rate(3, 1.0)
POLICY = RetryPolicy(tries=1, burst=2, write_interval=0.15, longest_rate_limit=5.0)
SLOW = replace(POLICY, write_interval=3.0)  # a request takes less, also on a busy machine


@pytest.fixture
async def queues(redis_url: str, tmp_path: Path) -> AsyncIterator[list[Queue]]:
    """Those of four workers, each with its own connections."""
    queues = [Queue.to(redis_url, load(data_dir=tmp_path)) for _ in range(4)]
    yield queues
    for queue in queues:
        await queue.close()


@pytest.fixture
async def standin() -> AsyncIterator[StandIn]:
    async with StandIn() as standin:
        await standin.create_repository(NAME, {"a.py": "x = 1\n"})
        yield standin


@pytest.fixture
async def writers(standin: StandIn, queues: list[Queue]) -> AsyncIterator[list[Repository]]:
    async with AsyncExitStack() as stack:
        writers = []
        for queue in queues:
            client = await stack.enter_async_context(worker(standin, queue.write_budget()))
            writers.append(writer(standin, client))
        yield writers


def worker(standin: StandIn, budget: WriteBudget, policy: RetryPolicy = POLICY) -> GitHub:
    return GitHub(standin.app_id, standin.private_key, api_url=standin.url, retry_policy=policy, budget=budget)


def writer(standin: StandIn, client: GitHub, *, optional: bool = False) -> Repository:
    ref = RepositoryRef(standin.repository(NAME).id, NAME)
    return client.repository(standin.installation("acme").id, ref, PUBLISHING, optional=optional)


async def test_workers_share_a_burst_and_then_a_pace(queues: list[Queue]) -> None:
    budgets = [queue.write_budget() for queue in queues]
    waits = await asyncio.gather(*(budgets[number % 4].reserve(1, (EVERY_SECOND,), 99.0) for number in range(40)))
    places = sorted(round(seconds or 0.0) for seconds in waits)
    assert places[:3] == [0, 0, 0]
    assert sorted(set(places[2:])) == list(range(38)), "no place is given away twice"
    assert await budgets[0].reserve(2, (EVERY_SECOND,), 0.0) == 0, "another installation has its own"


async def test_an_hour_has_its_own_limit(queues: list[Queue]) -> None:
    budget = queues[0].write_budget()
    waits = [await budget.reserve(1, (Rate(100, 0.0), Rate(5, 100.0)), 999.0) or 0.0 for _ in range(7)]
    assert [round(seconds, -2) for seconds in waits] == [0, 0, 0, 0, 0, 100, 200]


async def test_a_place_that_is_too_far_away_is_not_taken(queues: list[Queue]) -> None:
    one, other = (queue.write_budget() for queue in queues[:2])
    for _ in range(3):
        await one.reserve(1, (EVERY_SECOND,), 0.0)
    for _ in range(5):
        assert 0 < (await other.reserve(1, (EVERY_SECOND,), 0.5) or 0) <= 1
    assert (await one.reserve(1, (EVERY_SECOND,), 9.0) or 0) <= 1


@pytest.mark.long
async def test_what_one_worker_learns_from_github_holds_for_all(standin: StandIn, writers: list[Repository]) -> None:
    sha = (await standin.branches(NAME))["main"]
    standin.faults.secondary_limit("POST", "*/git/refs", retry_after=2)
    began = time.monotonic()
    with pytest.raises(RateLimited):
        await writers[0].create_branch("selfheal/a", sha)
    await asyncio.gather(*(each.create_branch(f"selfheal/{number}", sha) for number, each in enumerate(writers[1:])))
    assert time.monotonic() - began > 1.9, "GitHub asked for two seconds"


async def test_github_never_has_to_refuse_what_workers_write_together(standin: StandIn, writers: list[Repository]) -> None:
    standin.limits.allowed = ((12, 1.0),)
    sha = (await standin.branches(NAME))["main"]

    async def write(name: str, repository: Repository) -> None:
        for number in range(4):
            await repository.create_branch(f"selfheal/{name}-{number}", sha)

    await asyncio.gather(*(write(f"{number}", each) for number, each in enumerate(writers)))
    assert standin.limits.refused == []
    assert len(await standin.branches(NAME)) == 17


@pytest.mark.long
async def test_without_redis_each_worker_paces_itself_and_says_so_once(standin: StandIn, tmp_path: Path) -> None:
    nowhere = Queue.to("redis://127.0.0.1:1", load(data_dir=tmp_path))
    sha = (await standin.branches(NAME))["main"]
    with structlog.testing.capture_logs() as logs:
        async with worker(standin, nowhere.write_budget(), SLOW) as client:
            began = time.monotonic()
            for number in range(3):
                await writer(standin, client).create_branch(f"selfheal/{number}", sha)
            assert time.monotonic() - began > 2.5
            with pytest.raises(RateLimited):
                await writer(standin, client, optional=True).create_branch("selfheal/optional", sha)
    await nowhere.close()
    assert len(await standin.branches(NAME)) == 4
    assert ["redis does not answer" in log["event"] for log in logs].count(True) == 1


@pytest.mark.long
async def test_what_is_optional_is_not_written_when_it_would_have_to_wait(standin: StandIn, queues: list[Queue]) -> None:
    sha = (await standin.branches(NAME))["main"]
    async with (
        worker(standin, queues[0].write_budget(), SLOW) as client,
        worker(standin, queues[1].write_budget(), SLOW) as other,
    ):
        await writer(standin, client, optional=True).create_branch("selfheal/first", sha)
        await writer(standin, other).create_branch("selfheal/second", sha)
        with pytest.raises(RateLimited, match="own limit"):
            await writer(standin, client, optional=True).create_branch("selfheal/third", sha)
        await writer(standin, client).create_branch("selfheal/fourth", sha)
    assert (await standin.branches(NAME)).keys() == {"main", "selfheal/first", "selfheal/second", "selfheal/fourth"}
