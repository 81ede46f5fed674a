"""Regular looks at GitHub: one worker takes each, until it misses some."""

from __future__ import annotations

import asyncio

import pytest

from app.store import looks
from app.store.store import Store
from tests.app.requests import MovableClock


@pytest.fixture
def clock() -> MovableClock:
    return MovableClock()


async def test_one_of_many_workers_takes_it_and_keeps_it(store: Store, clock: MovableClock) -> None:
    workers = [f"w{number}" for number in range(8)]
    took = await asyncio.gather(*(looks.begin(store, "tidying", worker, 100.0) for worker in workers))
    assert sum(took) == 1
    first = workers[took.index(True)]
    for _ in range(3):
        clock.advance(90)
        assert [worker for worker in workers if await looks.begin(store, "tidying", worker, 100.0)] == [first]


async def test_another_worker_takes_over_what_is_missed(store: Store, clock: MovableClock) -> None:
    assert await looks.begin(store, "tidying", "w1", 100.0)
    clock.advance(101)
    assert await looks.begin(store, "tidying", "w2", 100.0)
    assert not await looks.begin(store, "tidying", "w1", 100.0), "it was away"
    assert await looks.begin(store, "suites", "w1", 100.0), "another look is another worker's"


async def test_how_far_it_was_read_outlives_the_worker(store: Store, clock: MovableClock) -> None:
    assert await looks.known_until(store, "deliveries") is None
    assert await looks.begin(store, "deliveries", "w1", 100.0)
    assert await looks.known_until(store, "deliveries") is None
    await looks.record_known(store, "deliveries", clock.now())
    clock.advance(200)
    assert await looks.begin(store, "deliveries", "w2", 100.0)
    assert await looks.known_until(store, "deliveries") == MovableClock().now()


async def test_a_worker_that_starts_looks_unless_one_has_since_its_start(store: Store, clock: MovableClock) -> None:
    old = looks.Look(store, "tidying", "w1", 100.0)
    async with old.turn() as is_due:
        assert is_due
    new, other = looks.Look(store, "tidying", "w2", 100.0), looks.Look(store, "tidying", "w3", 100.0)
    clock.advance(5)
    for look, expected in ((new, True), (other, False), (old, False)):
        async with look.turn() as is_due:
            assert is_due is expected
        clock.advance(5)


async def test_a_worker_that_fails_gives_the_look_up(store: Store, clock: MovableClock) -> None:
    broken, healthy = looks.Look(store, "tidying", "w1", 100.0), looks.Look(store, "tidying", "w2", 100.0)
    with pytest.raises(OSError, match="no network"):  # noqa: PT012
        async with broken.turn() as is_due:
            assert is_due
            raise OSError("no network")
    clock.advance(1)
    async with healthy.turn() as is_due:
        assert is_due
    clock.advance(1)
    with pytest.raises(OSError, match="no network"):  # noqa: PT012
        async with broken.turn() as is_due:
            assert not is_due
            raise OSError("no network")
    async with healthy.turn() as is_due:
        assert is_due, "only its owner gives it up"
    async with broken.turn() as is_due:
        assert not is_due
