from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from redis.asyncio import Redis

from agent.contract.outcome import Outcome
from app.queue.queue import Queue
from app.queue.redis import embedded
from app.service.worker import Heal, run_worker
from app.settings import Settings
from app.store.store import Store
from tests.app.requests import RUN, run_of, taken
from tests.app.service.crew import jobs
from tests.app.waiting import until


@contextlib.asynccontextmanager
async def working(settings: Settings, store: Store, redis_url: str, heal: Heal) -> AsyncIterator[None]:
    task = asyncio.create_task(run_worker(settings, store, redis_url, jobs(heal)))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


async def has_ended(store: Store, attempt_id: str) -> bool:
    attempt = await store.attempt(attempt_id)
    return attempt is not None and attempt.status == "ended"


async def test_queued_attempts_are_run_to_their_end(store: Store, settings: Settings, redis_url: str) -> None:
    async def heal(attempt_id: str) -> None:
        async with store.lease(attempt_id, "w") as lease:
            await lease.end(Outcome.HEALED, "done")

    ids = [await taken(store, run_of(letter * 40)) for letter in "abc"]
    async with working(settings, store, redis_url, heal):
        for attempt_id in ids:
            await until(lambda attempt_id=attempt_id: has_ended(store, attempt_id))


@pytest.mark.long
async def test_an_attempt_that_always_fails_ends_as_error_after_three_tries(
    store: Store, settings: Settings, redis_url: str
) -> None:
    tries = 0

    async def heal(attempt_id: str) -> None:
        nonlocal tries
        async with store.lease(attempt_id, "w"):
            tries += 1
            raise OSError("no space left")

    attempt_id = await taken(store, RUN)
    async with working(settings, store, redis_url, heal):
        await until(lambda: has_ended(store, attempt_id))
    attempt = await store.attempt(attempt_id)
    assert attempt is not None
    assert (tries, attempt.outcome) == (3, Outcome.ERROR)
    assert "no space left" in (attempt.reason or "")


async def test_stopping_puts_running_attempts_back_without_counting_the_try(
    store: Store, settings: Settings, redis_url: str
) -> None:
    begun = asyncio.Event()

    async def heal(attempt_id: str) -> None:
        async with store.lease(attempt_id, "w"):
            begun.set()
            await asyncio.sleep(600)

    attempt_id = await taken(store, RUN)
    async with working(settings, store, redis_url, heal):
        await asyncio.wait_for(begun.wait(), 60)
    attempt = await store.attempt(attempt_id)
    assert attempt is not None
    assert (attempt.status, attempt.tries) == ("queued", 0)


async def test_a_redis_that_dies_is_survived_and_does_not_disturb_what_runs(
    store: Store, settings: Settings, tmp_path: Path
) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()
    begins = 0

    async def heal(attempt_id: str) -> None:
        nonlocal begins
        async with store.lease(attempt_id, "w") as lease:
            begins += 1
            begun.set()
            await go_on.wait()
            await lease.end(Outcome.HEALED, "done")

    first = await taken(store, RUN)
    async with embedded(tmp_path / "own") as url, working(settings, store, url, heal):
        await asyncio.wait_for(begun.wait(), 60)
        client: Redis = Redis.from_url(url)
        with contextlib.suppress(Exception):
            await client.shutdown(nosave=True)
        await client.aclose()
        second = await taken(store, run_of("b" * 40))
        go_on.set()
        await until(lambda: has_ended(store, first))
        await until(lambda: has_ended(store, second))
    assert begins == 2


class Crew:
    """Worker processes on one database, one Redis, one log."""

    def __init__(self, settings: Settings, redis_url: str, log: Path) -> None:
        self._settings = settings
        self._redis_url = redis_url
        self.log = log
        self.members: list[Process] = []

    async def hire(self, mode: str) -> Process:
        argv = ["-m", "tests.app.service.crew", str(self._settings.data_dir), self._redis_url, mode, str(self.log)]
        environment = {**os.environ, "SELFHEAL_DATABASE_URL": self._settings.database}
        member = await asyncio.create_subprocess_exec(sys.executable, *argv, env=environment)
        self.members.append(member)
        return member

    def lines(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []


@pytest.fixture
async def crew(settings: Settings, redis_url: str, tmp_path: Path) -> AsyncIterator[Crew]:
    crew = Crew(settings, redis_url, tmp_path / "crew.log")
    yield crew
    for member in crew.members:
        with contextlib.suppress(ProcessLookupError):
            member.kill()
        await member.wait()


async def test_another_worker_finishes_what_a_killed_one_began(
    store: Store, settings: Settings, redis_url: str, crew: Crew
) -> None:
    attempt_id = await taken(store, RUN)
    victim = await crew.hire("hang")
    await until(lambda: "begun hang" in crew.lines())
    victim.kill()
    await victim.wait()
    await crew.hire("finish")
    await until(lambda: has_ended(store, attempt_id))
    attempt = await store.attempt(attempt_id)
    assert attempt is not None
    assert (attempt.outcome, attempt.tries) == (Outcome.HEALED, 2)
    assert crew.lines().count("begun finish") == 1


@pytest.mark.long
async def test_a_worker_told_to_stop_gives_its_attempt_back_and_leaves_in_order(
    store: Store, settings: Settings, redis_url: str, crew: Crew
) -> None:
    attempt_id = await taken(store, RUN)
    member = await crew.hire("hang")
    await until(lambda: "begun hang" in crew.lines())
    member.send_signal(signal.SIGTERM)
    assert await asyncio.wait_for(member.wait(), 60) == 0
    assert crew.lines()[-1] == "closed"
    attempt = await store.attempt(attempt_id)
    assert attempt is not None
    assert (attempt.status, attempt.tries) == ("queued", 0)
    queue = Queue.to(redis_url, settings)
    assert await queue.enqueue(attempt_id)
    await queue.close()


@pytest.mark.long
async def test_an_attempt_that_kills_its_worker_ends_as_error(store: Store, crew: Crew) -> None:
    attempt_id = await taken(store, RUN)
    members = [await crew.hire("crash") for _ in range(4)]
    await until(lambda: has_ended(store, attempt_id))
    attempt = await store.attempt(attempt_id)
    assert attempt is not None
    assert attempt.outcome is Outcome.ERROR
    assert attempt.reason == "3 tries failed, each time because the worker died or stopped responding."
    assert sum(member.returncode == -signal.SIGKILL for member in members) == 3
