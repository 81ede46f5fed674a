"""One loop for all who look: nothing missed, nothing twice, one query a tick, an end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from sqlalchemy import event, update
from sqlalchemy.exc import OperationalError

from agent.contract.events import StepStarted
from agent.contract.outcome import Outcome
from app.dashboard import feed as room
from app.dashboard.feed import Feed, TooManyFollowers, Update, open_feed
from app.store.models import AttemptRow, EventRow
from app.store.store import Store
from tests.app.requests import run_of, taken


def step(number: int) -> StepStarted:
    return StepStarted(text=f"step {number}", step="x")


async def tell(store: Store, attempt_id: str, *numbers: int, end: bool = False) -> None:
    async with store.database.write() as session:
        await session.execute(update(AttemptRow).values(tries=0))  # nobody died
    async with store.lease(attempt_id, "w1") as lease:
        for number in numbers:
            await lease.record(step(number))
        if end:
            await lease.end(Outcome.GAVE_UP, "enough")


@pytest.fixture
async def feed(store: Store) -> AsyncIterator[Feed]:
    async with open_feed(store) as feed:
        yield feed


async def read(feed: Feed, attempt_id: str, after: int = 0) -> list[int]:
    """Everything that one follower is told, to the end."""
    return [stored.sequence async for update in feed.follow(attempt_id, after) if update for stored in update.events]


async def test_a_follower_sees_each_event_once_and_the_end(store: Store, feed: Feed) -> None:
    attempt_id = await taken(store, run_of("a" * 40))
    await tell(store, attempt_id, 1, 2)
    reading = asyncio.create_task(read(feed, attempt_id))
    later = asyncio.create_task(read(feed, attempt_id, after=1))
    await asyncio.sleep(0.7)
    await tell(store, attempt_id, 3, 4)
    await asyncio.sleep(0.7)
    await tell(store, attempt_id, 5, end=True)
    async with asyncio.timeout(30):
        assert await reading == [1, 2, 3, 4, 5, 6]
        assert await later == [2, 3, 4, 5, 6]
    assert feed._watched == {}  # whoever has left costs nothing


@pytest.mark.long
async def test_one_who_was_away_for_long_misses_nothing(store: Store, feed: Feed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "PAGE", 3)
    attempt_id = await taken(store, run_of("a" * 40))
    followed = feed.follow(attempt_id, 0)
    assert (await anext(followed)) is not None
    for first in range(1, 12, 4):
        await tell(store, attempt_id, *range(first, first + 4))
        await asyncio.sleep(0.8)  # others go on; this one does not ask
    await tell(store, attempt_id, end=True)
    async with asyncio.timeout(30):
        seen = [stored.sequence async for update in followed if update for stored in update.events]
    assert seen == list(range(1, 14))


@pytest.mark.parametrize("followers", [100, pytest.param(1000, marks=pytest.mark.long)])
async def test_many_followers_are_one_query_a_tick(store: Store, feed: Feed, followers: int) -> None:
    ids = [await taken(store, run_of(f"{number:040x}")) for number in range(20)]
    asked: list[str] = []

    @event.listens_for(store.database.engine.sync_engine, "before_cursor_execute")
    def note(_conn: object, _cursor: object, statement: str, *_: object) -> None:
        asked.append(statement)

    async def first(attempt_id: str) -> tuple[Update | None, AsyncIterator[Update | None]]:
        following = feed.follow(attempt_id, 0)
        return await anext(following), following

    async with asyncio.timeout(60):
        began = await asyncio.gather(*(first(ids[number % 20]) for number in range(followers)))
    waiting = [asyncio.ensure_future(anext(following)) for _, following in began]
    await asyncio.sleep(0.1)
    asked.clear()
    await asyncio.sleep(3)
    ticks = [statement for statement in asked if statement.startswith("SELECT")]
    assert 1 <= len(ticks) <= 7
    asked.clear()
    await tell(store, ids[0], 1)
    async with asyncio.timeout(30):
        told = [await one for one in waiting[::20]]
    assert {tuple(stored.sequence for stored in update.events) for update in told if update} == {(1,)}
    assert len({id(update.snapshot) for update in told if update}) == 1  # made once for all
    for one in waiting:
        one.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


async def test_beyond_the_bound_nobody_is_let_in(store: Store, feed: Feed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "MOST_FOLLOWERS", 1)
    attempt_id = await taken(store, run_of("a" * 40))
    following = feed.follow(attempt_id, 0)
    feed.admit()
    await anext(following)
    with pytest.raises(TooManyFollowers):
        feed.admit()
    await following.aclose()  # type: ignore[attr-defined]
    feed.admit()


async def test_silence_is_broken_by_a_sign_of_life(store: Store, feed: Feed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "HEARTBEAT", 0.1)
    attempt_id = await taken(store, run_of("a" * 40))
    following = feed.follow(attempt_id, 0)
    assert await anext(following) is not None
    assert await anext(following) is None


async def test_followers_end_when_the_service_stops(store: Store, feed: Feed) -> None:
    attempt_id = await taken(store, run_of("a" * 40))
    reading = asyncio.create_task(read(feed, attempt_id))
    await asyncio.sleep(0.2)
    await feed.close()
    async with asyncio.timeout(10):
        assert await reading == []


async def test_nobody_waits_for_what_is_not_there(feed: Feed) -> None:
    async with asyncio.timeout(10):
        assert await read(feed, "0" * 32) == []


async def test_a_database_that_is_away_for_a_while_is_waited_for(
    store: Store, feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt_id = await taken(store, run_of("a" * 40))
    reading = asyncio.create_task(read(feed, attempt_id))
    await asyncio.sleep(0.2)
    versions, timeline, failures = store.versions, store.timeline, iter(range(4))

    def fail() -> None:
        if next(failures, None) is not None:
            raise OperationalError("SELECT 1", {}, Exception("gone"))

    async def away(ids: tuple[str, ...]) -> object:
        fail()
        return await versions(ids)

    async def gone(*args: object, **named: object) -> object:
        fail()
        return await timeline(*args, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(store, "versions", away)
    monkeypatch.setattr(store, "timeline", gone)
    await tell(store, attempt_id, 1, end=True)
    late = asyncio.create_task(read(feed, attempt_id))
    async with asyncio.timeout(30):
        assert await reading == [1, 2]
        assert await late == [1, 2]


async def test_one_who_comes_while_the_database_is_away_is_kept_waiting(
    store: Store, feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt_id = await taken(store, run_of("a" * 40))
    await tell(store, attempt_id, 1, 2, end=True)
    timeline, failures = store.timeline, iter(range(3))

    async def gone(*args: object, **named: object) -> object:
        if next(failures, None) is not None:
            raise OperationalError("SELECT 1", {}, Exception("gone"))
        return await timeline(*args, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(store, "timeline", gone)
    async with asyncio.timeout(30):
        assert await read(feed, attempt_id) == [1, 2, 3]


async def test_an_event_of_a_newer_worker_is_told_and_stops_nobody(store: Store, feed: Feed) -> None:
    attempt_id = await taken(store, run_of("a" * 40))
    reading = asyncio.create_task(read(feed, attempt_id))
    await asyncio.sleep(0.2)
    await tell(store, attempt_id, 1)
    async with store.database.write() as session:
        await session.execute(update(EventRow).values(body='{"kind":"dreamt","text":"a dream","depth":3}'))
    await asyncio.sleep(0.7)
    await tell(store, attempt_id, 2, end=True)
    async with asyncio.timeout(30):
        assert await reading == [1, 2, 3]


async def test_one_attempt_that_cannot_be_read_is_not_the_end_of_the_others(store: Store, feed: Feed) -> None:
    ids = [await taken(store, run_of(sha * 40)) for sha in "ab"]
    broken, whole = await store.versions(ids)  # in the order in which they are looked at
    following = [asyncio.create_task(read(feed, attempt_id)) for attempt_id in (broken, whole)]
    await asyncio.sleep(0.2)
    await tell(store, broken, 1)
    async with store.database.write() as session:
        await session.execute(update(EventRow).values(body="no JSON"))
    await asyncio.sleep(0.7)
    await tell(store, whole, 1, end=True)
    async with asyncio.timeout(30):
        assert await following[1] == [1, 2]
    assert not following[0].done()
    following[0].cancel()


async def test_one_who_comes_again_is_told_since_when_it_does_not_know_how_it_stands(store: Store, feed: Feed) -> None:
    attempt_id = await taken(store, run_of("a" * 40))
    await tell(store, attempt_id, 1, 2, 3, end=True)
    told = [(len(update.events), update.since) async for update in feed.follow(attempt_id, 2, 1) if update]
    assert told == [(2, 1), (0, 1)]
    assert [update.since async for update in feed.follow(attempt_id, 2**53) if update] == [4]


async def test_what_a_moment_comes_to_is_made_once_and_little_of_it_is_kept(store: Store, feed: Feed) -> None:
    attempt_id = await taken(store, run_of("a" * 40))
    following = feed.follow(attempt_id, 0)
    update = await anext(following)
    assert update is not None
    assert update.snapshot is not None
    made: list[str] = []

    def make(name: str) -> bytes:
        made.append(name)
        return name.encode()

    snapshot = update.snapshot
    assert set(await asyncio.gather(*(snapshot.once("same", lambda: make("same")) for _ in range(100)))) == {b"same"}
    for number in range(100):
        assert await snapshot.once(str(number), lambda number=number: make(str(number))) == str(number).encode()  # type: ignore[misc]
    assert len(made) == 101
    assert len(snapshot.made) < 10
    await following.aclose()
