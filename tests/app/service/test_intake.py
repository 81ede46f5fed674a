from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from typing import TypeVar

import pytest
import structlog
from arq.constants import default_queue_name
from redis.asyncio import Redis
from sqlalchemy import Connection, Engine, event, func, select, text
from sqlalchemy.exc import IntegrityError

from app.queue.queue import Queue
from app.service.intake import StoreIntake
from app.settings import Settings
from app.store.database.database import Database
from app.store.models import DeliveryRow
from app.store.store import Store
from tests.app.requests import COMMAND, RUN, delivery, run_of, taken
from webhooks.intake import Ignored, NotDurable, Receipt, RepositoryRef

T = TypeVar("T")


@pytest.fixture
async def intake(store: Store, settings: Settings, redis_url: str) -> AsyncIterator[StoreIntake]:
    queue = Queue.to(redis_url, settings)
    yield StoreIntake(store, queue)
    await queue.close()


@pytest.fixture
def commits() -> Iterator[list[object]]:
    """One entry a transaction that was committed, whichever connection it had."""
    seen: list[object] = []
    note = seen.append  # the same object, to be found again
    event.listen(Engine, "commit", note)
    yield seen
    event.remove(Engine, "commit", note)


async def test_deliveries_that_come_at_once_share_transactions_and_all_are_queued(
    store: Store, intake: StoreIntake, redis_url: str, commits: list[object]
) -> None:
    decisions = [run_of(f"{number:040x}") for number in range(40)] + [Ignored("not a failure")] * 40
    results = await asyncio.gather(*(intake.take(delivery(), decision) for decision in decisions))
    assert not any(result.duplicate for result in results)
    assert len(commits) < 8
    queued: Redis = Redis.from_url(redis_url)
    names = {name.decode() for name in await queued.zrange(default_queue_name, 0, -1)}
    await queued.aclose()
    assert names == {result.attempt_id for result in results[:40]}
    assert set(await store.due()) == names


async def test_the_same_delivery_twice_in_one_transaction_is_taken_once(store: Store, intake: StoreIntake) -> None:
    twice = delivery()
    one = await asyncio.gather(*(intake.take(each, RUN) for each in (delivery(), twice, twice, delivery())))
    assert [result.duplicate for result in one] == [False, False, True, False]
    assert len({result.attempt_id for result in one}) == 1
    again = await intake.take(twice, RUN)
    assert again.duplicate
    assert again.attempt_id == one[1].attempt_id
    assert await _deliveries(store) == 3


async def test_a_delivery_that_cannot_be_stored_does_not_fail_its_neighbours(store: Store, intake: StoreIntake) -> None:
    # No integer of any database: nothing that passes the webhooks' own check is like that.
    impossible = replace(RUN, run_id=2**70, head_sha="c" * 40)
    results = await asyncio.gather(
        *(intake.take(delivery(), decision) for decision in (RUN, impossible, Ignored("why"), run_of("d" * 40))),
        return_exceptions=True,
    )
    assert [isinstance(result, Receipt) for result in results] == [True, False, True, True]
    assert isinstance(results[1], Exception)
    assert await _deliveries(store) == 3
    assert {attempt.head_sha for attempt in await store.attempts()} == {RUN.head_sha, "d" * 40}


async def test_a_head_that_another_process_was_faster_with_is_taken_up(store: Store, intake: StoreIntake) -> None:
    first = await intake.take(delivery(), RUN)
    results = await asyncio.gather(
        intake.take(delivery(), replace(RUN, run_id=2)),
        intake.take(delivery(), COMMAND),
        intake.take(delivery(), run_of("e" * 40)),
    )
    assert results[0].attempt_id == first.attempt_id
    attempts = {attempt.id: attempt for attempt in await store.attempts()}
    assert len(attempts) == 2
    assert results[1].attempt_id is None, "a command waits for its author's permission"
    assert [request.run_id for request in attempts[str(first.attempt_id)].requests] == [1, 2]


async def test_an_automatic_attempt_is_numbered_after_the_others_of_its_head(intake: StoreIntake, store: Store) -> None:
    command = await taken(store, COMMAND)
    async with store.lease(command, "w1") as lease:
        await lease.set_head(str(RUN.head_sha), "main")
    automatic = await intake.take(delivery(), RUN)
    numbers = {attempt.id: attempt.number for attempt in await store.attempts()}
    assert (numbers[command], numbers[str(automatic.attempt_id)]) == (1, 2)


async def test_the_newest_name_of_a_repository_stays_also_within_one_transaction(intake: StoreIntake, store: Store) -> None:
    renamed = [RepositoryRef(7, f"octo/name-{number}") for number in range(3)]
    await asyncio.gather(
        *(intake.take(delivery(), replace(run_of(f"{at:040x}"), repository=to)) for at, to in enumerate(renamed))
    )
    assert {attempt.repository.full_name for attempt in await store.attempts()} == {"octo/name-2"}


async def test_nothing_is_acknowledged_before_it_is_committed(store: Store, intake: StoreIntake) -> None:
    async with store.database.write() as other:
        postgres = store.database.engine.dialect.name == "postgresql"
        await other.execute(text("LOCK TABLE deliveries" if postgres else "SELECT 1"))  # SQLite has one writer at a time
        waiting = [asyncio.create_task(intake.take(delivery(), run_of(f"{number:040x}"))) for number in range(5)]
        done, _ = await asyncio.wait(waiting, timeout=0.3)
        assert not done
    assert not any(result.duplicate for result in await asyncio.gather(*waiting))
    assert await _deliveries(store) == 5


async def test_without_a_database_everybody_who_shared_is_told(intake: StoreIntake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.service.intake._COMMIT_SECONDS", 0.3)

    def away(*_: object, **__: object) -> None:
        raise ConnectionRefusedError("nobody listens")

    monkeypatch.setattr("app.service.intake.record_batch", away)
    results = await asyncio.gather(*(intake.take(delivery(), RUN) for _ in range(5)), return_exceptions=True)
    assert all(isinstance(result, NotDurable) for result in results)


async def test_a_lost_answer_to_a_commit_delays_no_attempt_and_a_redelivery_makes_no_work(
    intake: StoreIntake, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit, lost = Database.write_in_one, []

    async def cut_off(self: Database, work: Callable[[Connection], T]) -> T:
        result = await commit(self, work)
        if not lost:
            lost.append(result)
            raise ConnectionResetError("the connection is gone after the commit")
        return result

    monkeypatch.setattr(Database, "write_in_one", cut_off)
    sent = delivery()
    taken = await intake.take(sent, RUN)
    queued: Redis = Redis.from_url(redis_url)
    assert [name.decode() for name in await queued.zrange(default_queue_name, 0, -1)] == [taken.attempt_id]
    await queued.flushall()
    assert (await intake.take(sent, RUN)).duplicate
    assert await queued.zcard(default_queue_name) == 0
    await queued.aclose()


async def test_a_delivery_that_loses_every_race_is_in_the_log(intake: StoreIntake, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(*_: object, **__: object) -> None:
        raise IntegrityError("INSERT", {}, Exception("another was faster"))

    monkeypatch.setattr("app.service.intake.record", lost)
    with structlog.testing.capture_logs() as logged, pytest.raises(NotDurable):
        await intake.take(delivery(), COMMAND)
    assert [told["event"] for told in logged] == ["delivery not stored; GitHub has to redeliver it"]


async def _deliveries(store: Store) -> int:
    async with store.database.read() as session:
        return await session.scalar(select(func.count()).select_from(DeliveryRow)) or 0
