from __future__ import annotations

import asyncio
import time
from dataclasses import replace

import pytest

from agent.contract.blobs import BlobMissing
from agent.contract.budget import Usage
from agent.contract.events import Degraded, Ended, StepStarted
from agent.contract.outcome import Outcome
from agent.contract.question import Question, Waiting
from app.settings import Settings
from app.store.leases.claims import HeadBusy, NotClaimed, Postponed, Terms, TriesExhausted
from app.store.leases.heartbeat import LeaseLost
from app.store.leases.leases import AttemptCancelled, Lease, open_lease
from app.store.store import Store
from app.store.values import PullRequestRecord
from tests.app.requests import COMMAND, REPOSITORY, RUN, SHA, MovableClock, cancel, run_of, taken
from webhooks.intake import PullRequestChange


@pytest.fixture
def clock() -> MovableClock:
    return MovableClock()


async def test_an_attempt_is_claimed_worked_on_and_ended(store: Store) -> None:
    attempt_id = await taken(store, RUN)
    async with store.lease(attempt_id, "w1") as lease:
        assert lease.attempt.status == "running"
        assert lease.attempt.repository == RUN.repository
        assert lease.attempt.requests == (replace(RUN, is_news=False),)
        assert (lease.attempt.number, lease.attempt.tries) == (1, 1)
        await lease.record(StepStarted(text="Unpacking", step="gather"))
        await lease.spend(Usage(10, 5, 1, 0.25))
        await lease.record_pull_request(PullRequestRecord(4, "selfheal/x", "https://example.org/4"))
        await lease.record_pull_request(PullRequestRecord(4, "selfheal/x", "https://example.org/4"))
        await lease.end(Outcome.HEALED, "It works.", "Review it.")
    attempt = await store.attempt(attempt_id)
    assert attempt is not None
    assert (attempt.status, attempt.outcome, attempt.reason, attempt.next_step) == (
        "ended",
        "healed",
        "It works.",
        "Review it.",
    )
    assert attempt.usage == Usage(10, 5, 1, 0.25)
    assert attempt.pull_request == PullRequestRecord(4, "selfheal/x", "https://example.org/4")
    assert attempt.started_at is not None
    assert attempt.started_at.tzinfo is not None
    timeline = await store.timeline(attempt_id)
    assert [entry.sequence for entry in timeline] == [1, 2]
    assert isinstance(timeline[0].event, StepStarted)
    assert isinstance(timeline[1].event, Ended)
    assert await store.timeline(attempt_id, after=1) == timeline[1:]
    with pytest.raises(NotClaimed, match="ended as healed"):
        async with store.lease(attempt_id, "w2"):
            pass


async def test_a_pull_request_that_people_closed_stays_closed_when_it_is_noted_again(store: Store) -> None:
    attempt_id = await taken(store, RUN)
    pull = PullRequestRecord(4, "selfheal/x", "https://example.org/4")
    async with store.lease(attempt_id, "w1") as lease:
        await lease.record_pull_request(pull)
        await taken(store, PullRequestChange("closed", 11, REPOSITORY, 4, SHA, pull.branch, merged=False, closed=True))
        await lease.record_pull_request(pull)
        attempt = await store.attempt(attempt_id)
        assert attempt is not None
        assert attempt.pull_request == replace(pull, state="closed")
        another = PullRequestRecord(5, "selfheal/x-2", "https://example.org/5")
        await lease.record_pull_request(another)
    attempt = await store.attempt(attempt_id)
    assert attempt is not None
    assert attempt.pull_request == another


async def test_a_living_worker_keeps_its_attempt_to_itself(store: Store) -> None:
    attempt_id = await taken(store, RUN)
    async with store.lease(attempt_id, "w1"):
        with pytest.raises(NotClaimed, match="w1 is working on it"):
            async with store.lease(attempt_id, "w2"):
                pass


async def test_ten_workers_claim_at_once_and_one_gets_it(store: Store) -> None:
    attempt_id = await taken(store, RUN)
    bodies = 0

    async def claim(name: str) -> None:
        nonlocal bodies
        async with store.lease(attempt_id, name) as lease:
            bodies += 1
            await asyncio.sleep(0.1)
            await lease.end(Outcome.HEALED, "done")

    results = await asyncio.gather(*(claim(f"w{i}") for i in range(10)), return_exceptions=True)
    assert bodies == 1
    assert sum(isinstance(result, NotClaimed) for result in results) == 9


async def test_a_block_that_leaves_without_an_end_puts_the_attempt_back(store: Store) -> None:
    attempt_id = await taken(store, RUN)
    async with store.lease(attempt_id, "w1"):
        pass
    attempt = await store.attempt(attempt_id)
    assert attempt is not None
    assert attempt.status == "queued"
    assert await store.due() == [attempt_id]


async def test_a_drained_try_does_not_count(store: Store) -> None:
    attempt_id = await taken(store, RUN)
    begun = asyncio.Event()

    async def body() -> None:
        async with store.lease(attempt_id, "w1"):
            begun.set()
            await asyncio.sleep(60)

    task = asyncio.create_task(body())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    attempt = await store.attempt(attempt_id)
    assert attempt is not None
    assert (attempt.status, attempt.tries) == ("queued", 0)
    [interrupted] = await store.timeline(attempt_id)
    assert interrupted.event.text.startswith("Interrupted: ")


async def test_three_failing_tries_end_as_error_with_the_reason_and_no_secret(
    store: Store, clock: MovableClock, settings: Settings
) -> None:
    attempt_id = await taken(store, RUN)

    async def body() -> None:
        async with store.lease(attempt_id, "w1"):
            raise RuntimeError("no answer to ghp_" + "x" * 36)

    for pause in (settings.lease_seconds, 2 * settings.lease_seconds):
        with pytest.raises(RuntimeError):
            await body()
        clock.advance(pause * 0.9)
        assert await store.due() == []
        with pytest.raises(NotClaimed, match="postponed"):
            await body()
        clock.advance(pause * 0.2)
        assert await store.due() == [attempt_id]
    with pytest.raises(TriesExhausted) as exhausted:
        await body()
    assert exhausted.value.attempt.outcome is Outcome.ERROR
    attempt = await store.attempt(attempt_id)
    assert attempt is not None
    assert attempt.reason == "3 tries failed, the last with RuntimeError: no answer to [redacted]."
    assert attempt.next_step
    events = [entry.event for entry in await store.timeline(attempt_id)]
    assert [type(event) for event in events] == [Degraded, Degraded, Degraded, Ended]
    assert (await store.figures()).meters["fallbacks", "attempt", ""] == 3


async def test_three_workers_that_fall_silent_end_it_as_error(store: Store, clock: MovableClock, settings: Settings) -> None:
    attempt_id = await taken(store, RUN)
    killed = []
    for number in range(3):
        killed.append(store.lease(attempt_id, f"w{number}"))
        await killed[-1].__aenter__()  # and never leaves
        _stop_heartbeats()
        clock.advance(settings.lease_seconds + 0.1)
        assert await store.due() == [attempt_id]
    with pytest.raises(TriesExhausted):
        async with store.lease(attempt_id, "w4"):
            pass
    attempt = await store.attempt(attempt_id)
    assert attempt is not None
    assert attempt.outcome is Outcome.ERROR
    assert attempt.reason == "3 tries failed, each time because the worker died or stopped responding."
    told = [entry.event.text for entry in await store.timeline(attempt_id)]
    assert told == ["Taken over: the previous worker stopped responding"] * 2 + [attempt.reason]
    assert await store.due() == [attempt_id]  # GitHub is to be told
    async with store.notification(attempt_id, "w4"):
        pass
    assert await store.due() == []


def _stop_heartbeats() -> None:
    for task in asyncio.all_tasks():
        if task.get_name().startswith("lease of"):
            task.cancel()


async def test_a_lease_that_another_took_over_is_fenced_and_its_body_cancelled(
    store: Store, clock: MovableClock, settings: Settings
) -> None:
    attempt_id = await taken(store, RUN)
    reached = False
    with pytest.raises(LeaseLost):  # noqa: PT012
        async with store.lease(attempt_id, "w1") as old:
            clock.advance(settings.lease_seconds + 1)
            async with store.lease(attempt_id, "w2") as new:
                for write in (
                    old.record(StepStarted(text="late", step="late")),
                    old.end(Outcome.HEALED, "late"),
                    old.spend(Usage(1)),
                    old.wait(Waiting(Question("publish", "late?"), Usage())),
                    old.record_pull_request(PullRequestRecord(9, "late", "late")),
                ):
                    with pytest.raises(LeaseLost):
                        await write
                await new.end(Outcome.GAVE_UP, "no idea")
            await asyncio.sleep(5)
            reached = True
    assert not reached
    attempt = await store.attempt(attempt_id)
    assert attempt is not None
    assert (attempt.outcome, attempt.pull_request, attempt.tries) == ("gave_up", None, 2)
    assert [type(entry.event) for entry in await store.timeline(attempt_id)] == [Degraded, Ended]


async def test_a_worker_that_slept_knows_that_its_lease_may_be_over_before_the_database_tells(store: Store) -> None:
    attempt_id = await taken(store, RUN)
    brief = Terms(silence=0.2, longest=60, tries=3)
    with pytest.raises(LeaseLost):  # noqa: PT012
        async with open_lease(store.database, store.clock, brief, attempt_id, "w1") as lease:
            lease.check()
            time.sleep(0.3)  # the whole process, with its heartbeats
            lease.check()


async def test_a_lease_runs_out_also_while_the_machine_is_suspended(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    if not hasattr(time, "CLOCK_BOOTTIME"):
        pytest.skip("this system does not tell how long it was suspended")
    attempt_id = await taken(store, RUN)
    real = time.clock_gettime
    with pytest.raises(LeaseLost):  # noqa: PT012
        async with store.lease(attempt_id, "w1") as lease:
            lease.check()
            monkeypatch.setattr(time, "clock_gettime", lambda which: real(which) + 600 * (which == time.CLOCK_BOOTTIME))
            lease.check()


async def test_a_heartbeat_keeps_the_lease(store: Store, clock: MovableClock, settings: Settings) -> None:
    attempt_id = await taken(store, RUN)
    async with store.lease(attempt_id, "w1"):
        for _ in range(3):
            clock.advance(settings.lease_seconds * 0.6)
            await asyncio.sleep(settings.lease_seconds / 3)
            assert await store.due() == []


async def test_cancelling_stops_the_worker_and_ends_the_attempt(store: Store) -> None:
    attempt_id = await taken(store, RUN)
    with pytest.raises(AttemptCancelled, match="not wanted") as cancelled:  # noqa: PT012
        async with store.lease(attempt_id, "w1"):
            await cancel(store, attempt_id, Outcome.CANCELLED, "not wanted")
            await asyncio.sleep(10)
    assert cancelled.value.outcome is Outcome.CANCELLED
    attempt = await store.attempt(attempt_id)
    assert attempt is not None
    assert (attempt.status, attempt.outcome, attempt.reason) == ("ended", "cancelled", "not wanted")
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_a_cancelled_attempt_ends_where_it_would_go_to_sleep(store: Store) -> None:
    attempt_id = await taken(store, RUN)
    with pytest.raises(AttemptCancelled, match="a newer commit"):  # noqa: PT012
        async with store.lease(attempt_id, "w1") as lease:
            await cancel(store, attempt_id, Outcome.SUPERSEDED, "a newer commit came")
            await lease.wait(Waiting(Question("publish", "May it be published?"), Usage()))
    attempt = await store.attempt(attempt_id)
    assert attempt is not None
    assert (attempt.status, attempt.outcome, attempt.reason) == ("ended", "superseded", "a newer commit came")


async def test_a_try_that_takes_too_long_is_a_failed_one(store: Store) -> None:
    store._terms = Terms(0.6, longest=0.3, tries=3)
    attempt_id = await taken(store, RUN)
    with pytest.raises(TimeoutError):
        async with store.lease(attempt_id, "w1"):
            await asyncio.sleep(10)
    attempt = await store.attempt(attempt_id)
    assert attempt is not None
    assert (attempt.status, attempt.tries) == ("queued", 1)


async def test_a_command_gets_its_head_and_the_heads_next_number(store: Store) -> None:
    automatic = await taken(store, RUN)
    async with store.lease(automatic, "w1") as lease:
        await lease.end(Outcome.GAVE_UP, "no idea")
    command = await taken(store, COMMAND)
    async with store.lease(command, "w1") as lease:
        assert lease.attempt.head_sha is None
        attempt = await lease.set_head(SHA, "main")
        assert (attempt.head_sha, attempt.head_branch, attempt.number) == (SHA, "main", 2)
        assert attempt.requests[0].head_sha == SHA
        await lease.end(Outcome.HEALED, "done")


async def test_at_most_one_attempt_of_a_head_runs_at_a_time(store: Store) -> None:
    automatic, command = await taken(store, RUN), await taken(store, COMMAND)
    async with store.lease(automatic, "w1"):
        with pytest.raises(HeadBusy):
            async with store.lease(command, "w2") as lease:
                await lease.set_head(SHA, "main")
        waiting = await store.attempt(command)
        assert waiting is not None
        assert (waiting.status, waiting.tries, waiting.head_sha) == ("queued", 0, SHA)
        with pytest.raises(HeadBusy):
            async with store.lease(command, "w2"):
                pass
    async with store.lease(command, "w2") as lease:
        await lease.end(Outcome.HEALED, "done")


async def test_attempts_of_other_heads_run_beside_each_other(store: Store) -> None:
    one, two = await taken(store, RUN), await taken(store, run_of("b" * 40))
    async with store.lease(one, "w1"), store.lease(two, "w1"):
        pass


async def test_an_unknown_attempt_is_refused(store: Store) -> None:
    with pytest.raises(NotClaimed, match="no such attempt"):
        async with store.lease("nothing", "w1"):
            pass


async def test_lists_are_newest_first_and_filtered(store: Store, clock: MovableClock) -> None:
    ids = []
    for sha in "bcd":
        ids.append(await taken(store, run_of(sha * 40)))
        clock.advance(1)
    other = replace(RUN, repository=replace(RUN.repository, id=8, full_name="octo/other"))
    ids.append(await taken(store, other))
    assert [attempt.id for attempt in await store.attempts()] == ids[::-1]
    assert [attempt.id for attempt in await store.attempts(repository="Octo/Other")] == ids[3:]
    assert [attempt.id for attempt in await store.attempts(limit=1)] == ids[3:]
    assert await store.attempts(status="ended") == []


async def test_blobs_are_kept_by_their_hash_once(store: Store) -> None:
    hashes = await asyncio.gather(*(store.blobs.put(b"log\x00") for _ in range(5)))
    assert len(set(hashes)) == 1
    assert await store.blobs.get(hashes[0]) == b"log\x00"
    with pytest.raises(BlobMissing):
        await store.blobs.get("0" * 64)


async def test_an_attempt_is_found_by_the_beginning_of_its_id_when_that_is_unambiguous(store: Store) -> None:
    ids = [await taken(store, run_of(f"{number:040x}")) for number in range(17)]
    found = await store.find_attempts(ids[0][:12])
    assert [attempt.id for attempt in found] == [ids[0]]
    assert await store.find_attempts(ids[0].upper()) == found
    assert await store.find_attempts("") == []
    assert await store.find_attempts("%") == []
    shared = next(letter for letter in "0123456789abcdef" if sum(each.startswith(letter) for each in ids) > 1)
    assert len(await store.find_attempts(shared)) == 2


async def test_a_postponed_attempt_waits_its_time_and_keeps_its_tries(store: Store, clock: MovableClock) -> None:
    attempt_id = await taken(store, RUN)
    with pytest.raises(Postponed):
        async with store.lease(attempt_id, "w1"):
            raise Postponed("GitHub is away", 30)
    attempt = await store.attempt(attempt_id)
    assert attempt is not None
    assert (attempt.status, attempt.tries) == ("queued", 0)
    assert await store.due() == []
    with pytest.raises(NotClaimed, match="postponed until"):
        async with store.lease(attempt_id, "w2"):
            pass
    (entry,) = await store.timeline(attempt_id)
    assert "GitHub is away" in entry.event.text

    clock.advance(31)

    assert await store.due() == [attempt_id]
    async with store.lease(attempt_id, "w2") as lease:
        assert lease.attempt.tries == 1


async def test_a_heartbeat_that_breaks_stops_the_work(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without heartbeats another worker would take the attempt while this one goes on."""

    async def broken(_: Lease) -> None:
        raise ValueError("a bug of ours")

    monkeypatch.setattr(Lease, "_beat", broken)
    attempt_id = await taken(store, RUN)
    with pytest.raises(ValueError, match="a bug of ours"):
        async with store.lease(attempt_id, "w1"):
            await asyncio.sleep(10)
    attempt = await store.attempt(attempt_id)
    assert attempt is not None
    assert (attempt.status, attempt.tries) == ("queued", 1)


async def test_work_that_goes_on_after_the_end_is_not_disturbed(store: Store, settings: Settings) -> None:
    attempt_id = await taken(store, RUN)
    async with store.lease(attempt_id, "w1") as lease:
        await lease.end(Outcome.HEALED, "done")
        await asyncio.sleep(settings.lease_seconds / 2)


async def test_an_end_that_github_was_not_told_of_is_due_until_it_is(store: Store, clock: MovableClock) -> None:
    shown, unseen, finished = [await taken(store, run_of(letter * 40)) for letter in "bcd"]
    with pytest.raises(Postponed):
        async with store.lease(shown, "w1"):
            raise Postponed("GitHub is away", 30)
    async with store.lease(finished, "w1") as lease:
        await lease.end(Outcome.GAVE_UP, "no idea", reported=True)
    for attempt_id in (shown, unseen):
        await cancel(store, attempt_id, Outcome.SUPERSEDED, "a newer commit")

    assert await store.due() == [shown]  # the postponement does not hold it back

    async with store.notification(shown, "w1") as telling:
        telling.retry_later(30)
    assert await store.due() == []
    clock.advance(31)
    assert await store.due() == [shown]
    async with store.notification(shown, "w1"):
        pass
    assert await store.due() == []
