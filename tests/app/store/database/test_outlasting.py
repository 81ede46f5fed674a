"""A database that goes away for a moment interrupts nothing: nothing is lost, nothing is there twice, no process ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy.ext.asyncio import AsyncSession

from agent.contract.budget import Usage
from agent.contract.events import Ended, StepStarted
from agent.contract.outcome import Outcome
from agent.contract.question import Question, Waiting
from app.clock import SystemClock
from app.queue.queue import Queue, sweep_for_ever
from app.service.intake import StoreIntake
from app.settings import Settings, load
from app.store.database.database import Database
from app.store.store import Store, open_store
from tests.app.requests import COMMAND, RUN, SHA, delivery, run_of, taken
from tests.standins.postgres import Postgres

FIRST, SECOND = (StepStarted(text=word, step=word) for word in ("first", "second"))


@pytest.fixture
async def on_postgres(postgres: Postgres, tmp_path: Path) -> AsyncIterator[Settings]:
    name = postgres.create()
    yield load(data_dir=tmp_path, database_url=postgres.url(name), lease_seconds=60, sweep_seconds=0.1)
    postgres.drop(name)


@asynccontextmanager
async def away(postgres: Postgres, go: Callable[[Postgres], None], seconds: float = 1.0) -> AsyncIterator[None]:
    """The server is gone when the block begins, and comes back while it runs."""
    await asyncio.to_thread(go, postgres)

    async def come_back() -> None:
        await asyncio.sleep(seconds)
        await asyncio.to_thread(postgres.start)

    coming = asyncio.create_task(come_back())
    try:
        yield
    finally:
        await coming


@pytest.mark.parametrize("go", [Postgres.stop, Postgres.kill], ids=["stopped", "crashed"])
@pytest.mark.long
async def test_an_attempt_goes_on_when_the_server_is_back(
    postgres: Postgres, on_postgres: Settings, go: Callable[[Postgres], None]
) -> None:
    async with open_store(on_postgres, SystemClock()) as store:
        attempt_id = await taken(store, RUN)
        async with store.lease(attempt_id, "w1") as lease:
            await lease.record(FIRST)
            async with away(postgres, go):
                await lease.record(SECOND)
            async with away(postgres, go):
                assert await store.blobs.get(await store.blobs.put(b"log")) == b"log"
            async with away(postgres, go):
                await lease.end(Outcome.HEALED, "It works.")
        attempt = await store.attempt(attempt_id)
        assert attempt is not None
        assert (attempt.outcome, attempt.tries) == (Outcome.HEALED, 1)
        assert [type(entry.event) for entry in await store.timeline(attempt_id)] == [StepStarted, StepStarted, Ended]


async def test_a_delivery_is_taken_once_and_swept_when_the_server_is_back(
    postgres: Postgres, on_postgres: Settings, redis_url: str
) -> None:
    queue = Queue.to(redis_url, on_postgres)
    async with open_store(on_postgres, SystemClock()) as store:
        sweeping = asyncio.create_task(sweep_for_ever(store, queue, 0.1))
        async with away(postgres, Postgres.stop):
            results = await asyncio.gather(*(StoreIntake(store, queue).take(delivery("same"), RUN) for _ in range(3)))
        assert len({result.attempt_id for result in results}) == 1
        assert len(await store.attempts()) == 1
        assert not sweeping.done()
        sweeping.cancel()
    await queue.close()


class Forgetful(Database):
    """Commits, and then loses the connection before the answer, as often as `times` says."""

    times = 0

    @asynccontextmanager
    async def write(self) -> AsyncIterator[AsyncSession]:
        async with super().write() as session:
            yield session
        if self.times:
            self.times -= 1
            raise ConnectionResetError("gone")


@pytest.fixture
async def forgetful(settings: Settings) -> AsyncIterator[tuple[Store, Forgetful]]:
    async with open_store(settings.model_copy(update={"lease_seconds": 60.0}), SystemClock()) as store:
        database = Forgetful(store.database.engine)
        store.database = database
        yield store, database


async def test_a_commit_whose_answer_is_lost_is_not_made_twice(forgetful: tuple[Store, Forgetful]) -> None:
    store, database = forgetful
    attempt_id = await taken(store, RUN)
    async with store.lease(attempt_id, "w1") as lease:
        for event in (FIRST, FIRST, SECOND):
            database.times = 1
            await lease.record(event)
        database.times = 2
        await lease.end(Outcome.HEALED, "It works\0.")
    timeline = await store.timeline(attempt_id)
    assert [entry.event.text for entry in timeline] == ["first", "first", "second", "It works."]


async def test_a_claim_whose_answer_is_lost_is_one_claim(forgetful: tuple[Store, Forgetful]) -> None:
    store, database = forgetful
    attempt_id = await taken(store, RUN)
    database.times = 2
    async with store.lease(attempt_id, "w1") as lease:
        assert (lease.attempt.status, lease.attempt.tries) == ("running", 1)
        await lease.record(FIRST)
    assert len(await store.timeline(attempt_id)) == 1


async def test_a_number_whose_answer_is_lost_is_one_number(forgetful: tuple[Store, Forgetful]) -> None:
    store, database = forgetful
    attempt_id = await taken(store, COMMAND)
    async with store.lease(attempt_id, "w1") as lease:
        database.times = 2
        await lease.set_head(SHA, "main")
        assert lease.attempt.number == 1
    attempt = await store.attempt(attempt_id)
    assert attempt is not None
    assert (attempt.number, attempt.head_sha) == (1, SHA)


async def test_a_sleep_whose_answer_is_lost_is_one_sleep(forgetful: tuple[Store, Forgetful]) -> None:
    store, database = forgetful
    attempt_id = await taken(store, RUN)
    async with store.lease(attempt_id, "w1") as lease:
        database.times = 1
        await lease.wait(Waiting(Question("publish", "May it?", "\ud800\0 escape_like \\u0000"), Usage(), "first"))
    attempt = await store.attempt(attempt_id)
    assert attempt is not None
    assert attempt.status == "waiting"
    assert attempt.question is not None
    assert attempt.question.diff == "\ufffd escape_like \\u0000"
    assert len(await store.timeline(attempt_id)) == 1


async def test_hostile_text_is_kept_everywhere(store: Store) -> None:
    hostile = "a\0b\ud800c \\u0000 \x1b[31m \u202e"
    attempt_id = await taken(store, replace(RUN, title=hostile, sender=hostile, head_branch=hostile))
    async with store.lease(attempt_id, "w" + hostile) as lease:
        await lease.record(StepStarted(text=hostile, step="gather"))
        await lease.end(Outcome.GAVE_UP, hostile, hostile)
    attempt = await store.attempt(attempt_id)
    assert attempt is not None
    assert attempt.requests[0].title == attempt.reason == "ab\ufffdc \\u0000 \x1b[31m \u202e"
    assert [entry.event.text for entry in await store.timeline(attempt_id)] == [attempt.reason] * 2
    assert await store.find_attempts(hostile) == []
    assert await store.attempt("\0") is None
    assert await store.attempts(repository=hostile) == []


async def test_two_services_on_one_database_share_the_work(settings: Settings, redis_url: str) -> None:
    async with open_store(settings, SystemClock()) as one, open_store(settings, SystemClock()) as other:
        queue = Queue.to(redis_url, settings)
        intakes = [StoreIntake(store, queue) for store in (one, other)]
        results = await asyncio.gather(
            *(intake.take(delivery(f"{n}"), run_of(f"{n:040x}")) for n in range(5) for intake in intakes for _ in range(2))
        )
        assert sum(not result.duplicate for result in results) == 5
        assert len(await one.attempts()) == len(await other.attempts()) == 5
        await queue.close()


def test_the_password_is_a_secret_of_its_own() -> None:
    secrets = load(database_url="postgres://me:p%40ss@h/app").secrets
    assert {"p%40ss", "p@ss"} <= set(secrets)
    assert SHA not in secrets
