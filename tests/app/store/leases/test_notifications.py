from __future__ import annotations

import asyncio

import pytest

from agent.contract.outcome import Outcome
from app.settings import Settings
from app.store.leases.claims import NotClaimed
from app.store.leases.heartbeat import LeaseLost
from app.store.store import Store
from tests.app.requests import RUN, MovableClock, taken


@pytest.fixture
def clock() -> MovableClock:
    return MovableClock()


async def untold(store: Store) -> str:
    attempt_id = await taken(store, RUN)
    async with store.lease(attempt_id, "w1") as lease:
        await lease.end(Outcome.CANCELLED, "A person said so.")
    assert await store.due() == [attempt_id]
    return attempt_id


async def test_of_many_workers_one_tells_the_end(store: Store) -> None:
    attempt_id = await untold(store)
    telling = 0

    async def tell(worker: str) -> None:
        nonlocal telling
        async with store.notification(attempt_id, worker):
            telling += 1
            await asyncio.sleep(0.1)

    results = await asyncio.gather(*(tell(f"w{number}") for number in range(5)), return_exceptions=True)

    assert telling == 1
    assert sum(isinstance(result, NotClaimed) for result in results) == 4
    attempt = await store.attempt(attempt_id)
    assert attempt is not None
    assert (attempt.is_reported, attempt.worker) == (True, None)


async def test_a_heartbeat_keeps_the_telling(store: Store, clock: MovableClock, settings: Settings) -> None:
    attempt_id = await untold(store)
    async with store.notification(attempt_id, "w1"):
        for _ in range(3):
            clock.advance(settings.lease_seconds * 0.6)
            await asyncio.sleep(settings.lease_seconds / 3)
            assert await store.due() == []


async def test_what_a_silent_worker_did_not_tell_another_one_tells(
    store: Store, clock: MovableClock, settings: Settings
) -> None:
    attempt_id = await untold(store)
    with pytest.raises(LeaseLost):  # noqa: PT012
        async with store.notification(attempt_id, "w1"):
            clock.advance(settings.lease_seconds + 1)
            assert await store.due() == [attempt_id]
            async with store.notification(attempt_id, "w2") as telling:
                telling.retry_later(60)
            await asyncio.sleep(10)  # until its next heartbeat
    attempt = await store.attempt(attempt_id)
    assert attempt is not None
    assert not attempt.is_reported


async def test_a_telling_that_is_interrupted_is_due_at_once_and_one_that_fails_after_a_while(
    store: Store, clock: MovableClock, settings: Settings
) -> None:
    attempt_id = await untold(store)
    with pytest.raises(asyncio.CancelledError):
        async with store.notification(attempt_id, "w1"):
            raise asyncio.CancelledError
    assert await store.due() == [attempt_id]
    with pytest.raises(ValueError, match="a bug of ours"):
        async with store.notification(attempt_id, "w1"):
            raise ValueError("a bug of ours")
    assert await store.due() == []
    clock.advance(settings.lease_seconds + 1)
    assert await store.due() == [attempt_id]
