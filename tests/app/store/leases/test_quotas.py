"""Quotas, counted on SQLite and PostgreSQL."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from math import inf

import pytest

from agent.contract.budget import Usage
from agent.contract.events import ModelCalled
from agent.contract.outcome import Outcome
from app.clock import Clock
from app.store.leases.claims import NotClaimed
from app.store.leases.heartbeat import LeaseLost
from app.store.leases.quotas import UNLIMITED, Allowance, Limit, Quota, Quotas
from app.store.store import Store
from tests.app.requests import COMMAND, RUN, MovableClock, run_of, taken
from webhooks.intake import RepositoryRef

DAY = 24 * 3600


@pytest.fixture
def clock() -> Clock:
    return MovableClock()


def limited(store: Store, **quotas: Quota) -> Store:
    terms = replace(store._terms, quotas=Quotas(**quotas), most=Allowance(1000, 2.0))
    return Store(store.database, store.clock, terms)


def attempts(most: int) -> Quota:
    return Quota(attempts=Limit(most, "MORE"))


async def run(store: Store, attempt_id: str, spent: Usage | None = None) -> str | None:
    """Run the attempt to its end; the sentence if it is refused."""
    try:
        async with store.lease(attempt_id, "w1") as lease:
            if attempt_id and lease.attempt.by_command:
                await lease.set_head("f" * 40, "topic")
                refused = await lease.reserve(lambda quotas: quotas)
                if isinstance(refused, str):
                    await lease.end(Outcome.REFUSED, refused)
                    return refused
            await lease.spend(spent or Usage())
            await lease.end(Outcome.GAVE_UP, "no idea")
    except NotClaimed as refusal:
        return str(refusal)
    return None


async def some(store: Store, count: int, first: int = 0) -> list[str]:
    return [await taken(store, run_of(f"{number:040x}")) for number in range(first, first + count)]


async def test_a_repositorys_attempts_of_a_day_end_at_midnight_utc_and_others_go_on(store: Store, clock: MovableClock) -> None:
    limits = limited(store, repository=attempts(2))
    clock.advance(DAY - 60)
    results = [await run(limits, each) for each in await some(limits, 3)]
    assert results == [
        None,
        None,
        "The quota of 2 attempts per repository and day is used up until 2026-01-02 00:00 UTC. It is set by MORE.",
    ]
    assert await run(limits, await taken(limits, replace(RUN, repository=RepositoryRef(8, "octo/other")))) is None
    clock.advance(60)
    assert await run(limits, (await some(limits, 1, first=9))[0]) is None


async def test_a_refusal_is_reported_and_does_not_count(store: Store) -> None:
    limits = limited(store, repository=attempts(1))
    first, second = await some(limits, 2)
    await run(limits, first)
    await run(limits, second)
    attempt = await store.attempt(second)
    assert attempt is not None
    assert (attempt.outcome, attempt.is_reported, attempt.started_at) == (Outcome.REFUSED, False, None)
    assert await run(limited(store, repository=attempts(2)), (await some(limits, 1, first=5))[0]) is None


async def test_a_persons_attempts_count_in_all_repositories(store: Store) -> None:
    limits = limited(store, person=attempts(1))
    here = await taken(limits, COMMAND)
    there = replace(COMMAND, comment_id=6, repository=RepositoryRef(8, "octo/other"))
    assert await run(limits, here) is None
    assert await taken(limits, replace(there, sender="Alice")) == ""
    assert await taken(limits, replace(there, comment_id=7, sender="bob")) != ""


async def test_all_attempts_of_a_day_count_together(store: Store) -> None:
    limits = limited(store, everybody=attempts(1))
    assert await run(limits, await taken(limits, RUN)) is None
    other = await taken(limits, replace(RUN, repository=RepositoryRef(8, "octo/other")))
    assert "1 attempt per day is used up" in (await run(limits, other) or "")


async def test_workers_that_claim_at_once_do_not_exceed_a_quota(store: Store) -> None:
    limits = limited(store, repository=attempts(3))
    results = await asyncio.gather(*(run(limits, each) for each in await some(limits, 8)))
    assert results.count(None) == 3


@pytest.mark.parametrize(
    ("quota", "named"),
    [(Quota(tokens=Limit(1500, "MORE")), "1500 model tokens"), (Quota(cost=Limit(3.0, "MORE")), r"$3.00")],
)
async def test_what_runs_reserves_what_it_may_spend_and_then_counts_what_it_spent(
    store: Store, quota: Quota, named: str
) -> None:
    limits = limited(store, repository=quota)
    first, second, third, fourth = await some(limits, 4)
    async with limits.lease(first, "w1") as one:  # reserves 1000 tokens and $2
        async with limits.lease(second, "w2") as two:  # the rest
            assert named in (await run(limits, third) or "")
            await two.end(Outcome.GAVE_UP, "no idea")
        await one.record(ModelCalled(text="", model="m", role="repair", tokens_in=900, tokens_out=600, seconds=1.0, cost=3.0))
        await one.end(Outcome.CANCELLED, "its usage is not recorded at the end")
    assert named in (await run(limits, fourth) or "")


async def test_the_allowance_is_what_is_left_and_a_repository_can_only_lower_it(store: Store, clock: MovableClock) -> None:
    limits = limited(store, repository=Quota(tokens=Limit(1500, "MORE"), cost=Limit(3.0, "MORE")))
    first, second, third = await some(limits, 3)
    await run(limits, first, Usage(400, 300, 1, 1.5))
    async with limits.lease(second, "w1") as lease:
        assert await lease.reserve(lambda quotas: quotas) == Allowance(800, 1.5)

        def lower(quotas: Quotas) -> Quotas:
            own = quotas.repository
            return replace(
                quotas, repository=replace(own, tokens=own.tokens.narrowed(900, "YML"), cost=own.cost.narrowed(99, ""))
            )

        assert await lease.reserve(lower) == Allowance(200, 1.5)
        await lease.end(Outcome.GAVE_UP, "no idea")
    clock.advance(1)
    async with limits.lease(third, "w1") as lease:
        refused = await lease.reserve(lambda quotas: replace(quotas, repository=attempts(2)))
        assert "2 attempts per repository" in str(refused)
        await lease.end(Outcome.REFUSED, str(refused))


async def test_a_later_try_stays_within_the_repositorys_own_quota(store: Store, clock: MovableClock) -> None:
    limits = limited(store, repository=Quota(tokens=Limit(1500, "MORE")))

    def lower(quotas: Quotas) -> Quotas:
        return replace(quotas, repository=replace(quotas.repository, tokens=Limit(100, "YML")))

    (attempt_id,) = await some(limits, 1)
    for worker in ("w1", "w2"):
        with suppress(LeaseLost):
            async with limits.lease(attempt_id, worker) as lease:
                assert await lease.reserve(lower) == Allowance(100, 2.0)
                clock.advance(limits._terms.silence + 1)  # the worker dies here


async def test_an_attempt_without_a_limit_keeps_to_the_quota_and_may_end_when_others_used_it_up(store: Store) -> None:
    quotas = Quotas(repository=Quota(cost=Limit(5.0, "MORE")))
    limits = Store(store.database, store.clock, replace(store._terms, quotas=quotas, most=UNLIMITED))
    first, second = await some(limits, 2)
    async with limits.lease(first, "w1") as lease:
        assert await lease.reserve(lambda quotas: quotas) == Allowance(inf, 5.0)
        await lease.record(ModelCalled(text="", model="m", role="repair", tokens_in=9, tokens_out=9, seconds=1.0, cost=1.0))
        await run(limits, second, Usage(10, 10, 1, 6.0))
        assert await lease.reserve(lambda quotas: quotas) == Allowance(0, 0.0)
        await lease.end(Outcome.GAVE_UP, "no idea")


async def test_what_is_used_today_is_told_of_everybody_and_of_the_busiest(store: Store, clock: MovableClock) -> None:
    limits = limited(store, everybody=attempts(9), repository=attempts(5), person=attempts(2))
    for attempt_id in await some(limits, 2):
        await run(limits, attempt_id, Usage(10, 5, 1, 0.5))
    await run(limits, await taken(store, COMMAND))
    used = [(use.whose, use.quota, use.attempts, use.tokens, use.cost) for use in await limits.quotas_used()]
    assert used == [
        ("all repositories", attempts(9), 3, 30, 1.0),
        (RUN.repository.full_name, attempts(5), 3, 30, 1.0),
        ((COMMAND.sender or "").lower(), attempts(2), 1, 0, 0.0),
    ]
    clock.advance(DAY)
    assert [(use.whose, use.attempts) for use in await limits.quotas_used()] == [("all repositories", 0)]
    assert await limited(store).quotas_used() == []
