from __future__ import annotations

import asyncio
import uuid
from dataclasses import replace
from typing import Literal

import pytest
from sqlalchemy import func, select
from structlog.testing import capture_logs

from agent.contract.budget import Usage
from agent.contract.outcome import Outcome
from agent.contract.question import Question, Waiting
from app.queue.queue import Queue
from app.service.intake import StoreIntake
from app.settings import Settings
from app.store import commands
from app.store.leases import changes
from app.store.leases.leases import AttemptCancelled
from app.store.models import AttemptRow, DeliveryRow, RepositoryRow
from app.store.store import Store
from app.store.values import PullRequestRecord
from tests.app.requests import COMMAND, REPOSITORY, RUN, SHA, delivery, run_of, taken
from webhooks.intake import RERUN, Ignored, InstallationChange, PullRequestChange, RepositoryRef

NEWER = "b" * 40
PUSHED = PullRequestChange("synchronize", 11, REPOSITORY, 3, NEWER, "fix", merged=False, closed=False, before=SHA)
PRESSED = replace(RUN, source="check_run", run_id=None, run_attempt=None, check_run_id=8, title=RERUN, sender="Maria")
CLOSED = PullRequestChange("closed", 11, REPOSITORY, 3, SHA, "fix", merged=False, closed=True)


@pytest.fixture
def intake(store: Store, settings: Settings, redis_url: str) -> StoreIntake:
    return StoreIntake(store, Queue.to(redis_url, settings))


async def test_a_delivery_is_handled_once_also_when_it_arrives_ten_times_at_once(store: Store, intake: StoreIntake) -> None:
    guid = str(uuid.uuid4())
    results = await asyncio.gather(*(intake.take(delivery(guid), COMMAND) for _ in range(10)))
    assert sorted(result.duplicate for result in results) == [False] + [True] * 9
    assert len(await commands.pending(store, REPOSITORY.id, 3)) == 1
    assert await store.attempts() == []


async def test_a_comment_under_many_guids_at_once_is_one_command(store: Store, intake: StoreIntake) -> None:
    for comment in range(20, 25):
        command = replace(COMMAND, comment_id=comment)
        await asyncio.gather(*(intake.take(delivery(), command) for _ in range(4)))
    assert [each.comment_id for each in await commands.pending(store, REPOSITORY.id, 3)] == [*range(20, 25)]


async def test_fifty_deliveries_at_once_are_all_taken(store: Store, intake: StoreIntake) -> None:
    decisions = [run_of(f"{number:040x}") for number in range(25)] * 2
    results = await asyncio.gather(*(intake.take(delivery(), decision) for decision in decisions))
    assert not any(result.duplicate for result in results)
    attempts = await store.attempts(limit=100)
    assert len(attempts) == 25
    assert all(len(attempt.requests) == 2 and attempt.number == 1 for attempt in attempts)


@pytest.mark.long
async def test_a_head_has_one_automatic_attempt_and_its_work_grows(store: Store) -> None:
    one = await taken(store, RUN)
    two = await taken(store, replace(RUN, run_id=2, title="lint"))
    assert one == two
    attempt = await store.attempt(one)
    assert attempt is not None
    assert [request.run_id for request in attempt.requests] == [1, 2]


async def _gathered(store: Store, attempt_id: str, *runs: tuple[int, int]) -> bool:
    """A worker claims the attempt, and sees these failing runs, each of a workflow of its own."""
    async with store.lease(attempt_id, "w1") as lease:
        seen = await lease.gathered({run: ("CI", 100 + run[0]) for run in runs})
        await lease.end(Outcome.GAVE_UP, "No change passes.")
    return seen


async def test_a_run_that_fails_after_the_attempt_ended_starts_a_further_one(store: Store) -> None:
    one = await taken(store, RUN)
    assert await _gathered(store, one, (1, 1), (3, 1))
    assert await taken(store, RUN) == one, "its own run is no news"
    assert await taken(store, replace(RUN, run_id=3)) == one, "it saw that run"
    assert await taken(store, replace(RUN, run_id=4, is_news=False)) == one
    two = await taken(store, replace(RUN, run_id=2, title="lint"))
    assert two != one
    assert await taken(store, replace(RUN, run_id=5)) == two, "until it has looked, others join it"
    again = await store.attempt(two)
    assert again is not None
    assert (again.number, [request.run_id for request in again.requests]) == (2, [2, 5])


async def test_a_workflow_that_fails_again_and_again_at_one_commit_is_news_once(store: Store) -> None:
    """One that listens to labels runs at every label, each time as a new run."""
    one = await taken(store, replace(RUN, workflow_id=101))
    await _gathered(store, one, (1, 1), (3, 1))
    assert await taken(store, replace(RUN, run_id=7, workflow_id=101)) == one
    assert await taken(store, replace(RUN, run_id=8, workflow_id=103)) == one, "it saw that workflow"
    two = await taken(store, replace(RUN, run_id=9, workflow_id=102))
    assert two != one
    await _gathered(store, two)
    assert await taken(store, replace(RUN, run_id=10, workflow_id=102)) == two
    assert await taken(store, replace(RUN, run_id=7, run_attempt=2, workflow_id=101)) not in (one, two), "a person's re-run"


async def test_a_rerun_that_fails_anew_starts_a_further_attempt_and_a_loop_ends(store: Store) -> None:
    first = await taken(store, RUN)
    seen = [first]
    for number in range(2, 11):
        await _gathered(store, seen[-1], (1, number - 1))
        seen.append(await taken(store, replace(RUN, run_attempt=number)))
    assert len(dict.fromkeys(seen)) == 10
    await _gathered(store, seen[-1], (1, 10))
    with capture_logs() as logs:
        assert await taken(store, replace(RUN, run_attempt=11)) == seen[-1]
    told = {"attempt": seen[-1], "repository": "octo/calculator", "commit": SHA, "title": "CI", "most": 10}
    assert [entry for entry in logs if told.items() <= entry.items()], "operators are told that it is left"
    assert await taken(store, PRESSED) not in seen, "people are not refused without a word"


async def test_what_fails_while_an_attempt_waits_for_a_person_starts_a_further_one(store: Store) -> None:
    one = await taken(store, RUN)
    async with store.lease(one, "w1") as lease:
        await lease.gathered({(1, 1): ("CI", 101)})
        await lease.wait(Waiting(Question("publish", "Open a pull request?"), Usage(), "first"))
    assert await taken(store, RUN) == one, "it knows that one"
    two = await taken(store, replace(RUN, run_id=2, title="lint"))
    assert two != one
    async with store.database.write() as session:
        assert await changes.reply(session, one, True, "", store.clock.now()) is None
    assert await taken(store, replace(RUN, run_id=3)) == two


async def test_a_rerun_of_our_check_starts_a_further_attempt_once_the_last_has_ended(store: Store) -> None:
    one = await taken(store, RUN)
    assert await taken(store, PRESSED) == one
    await _gathered(store, one, (1, 1))
    two = await taken(store, replace(PRESSED, head_branch=None))
    assert two != one
    again = await store.attempt(two)
    assert again is not None
    assert again.head_branch == "main", "GitHub may not know it"
    async with store.database.read() as session:
        assert (await session.get_one(AttemptRow, two)).person == "maria", "it counts for who asked for it"


@pytest.mark.parametrize("source", ["status", "check_run"])
async def test_another_name_that_fails_after_the_attempt_ended_starts_a_further_one(
    store: Store, source: Literal["status", "check_run"]
) -> None:
    first = replace(RUN, source=source, run_id=None, run_attempt=None, title="ci/one")
    one = await taken(store, first)
    async with store.lease(one, "w1") as lease:
        assert await lease.gathered({}, [(source, "ci/one"), (source, "ci/three")])
        await lease.end(Outcome.GAVE_UP, "No change passes.")
    assert await taken(store, first) == one, "it is set again and again"
    assert await taken(store, replace(first, title="ci/three")) == one, "it saw that one"
    two = await taken(store, replace(first, title="ci/two"))
    assert two != one
    attempt = await store.attempt(two)
    assert attempt is not None
    assert (attempt.number, [request.title for request in attempt.requests]) == (2, ["ci/two"])


async def test_where_a_workflow_failed_other_services_are_not_read_and_start_nothing(store: Store) -> None:
    one = await taken(store, RUN)
    await _gathered(store, one, (1, 1))
    status = replace(RUN, source="status", run_id=None, run_attempt=None, title="ci/one")
    assert await taken(store, status) == one


async def test_a_status_that_joins_while_the_others_are_read_is_not_lost(store: Store) -> None:
    first = replace(RUN, source="status", run_id=None, run_attempt=None, title="ci/one")
    one = await taken(store, first)
    async with store.lease(one, "w1") as lease:
        assert await taken(store, replace(first, title="ci/two")) == one
        assert not await lease.gathered({}, [("status", "ci/one")]), "the attempt has to read them again"
        assert await lease.gathered({}, [("status", "ci/one")]), "it is green by now"


async def test_a_run_that_joins_while_the_others_are_read_is_not_lost(store: Store) -> None:
    one = await taken(store, RUN)
    async with store.lease(one, "w1") as lease:
        assert await taken(store, replace(RUN, run_id=2)) == one
        assert not await lease.gathered({(1, 1): ("CI", 101)}), "the attempt has to read them again"
        assert await lease.gathered({(1, 1): ("CI", 101), (2, 1): ("lint", 102)})
        late = await taken(store, replace(RUN, run_id=3))
        assert late != one
        await lease.end(Outcome.GAVE_UP, "No change passes.")


async def test_the_same_sha_in_another_repository_is_another_attempt(store: Store) -> None:
    fork = replace(RUN, repository=RepositoryRef(8, "octo/other"))
    assert await taken(store, RUN) != await taken(store, fork)


async def test_commands_of_one_pull_request_are_one_attempt_until_it_starts(store: Store) -> None:
    automatic = await taken(store, RUN)
    first = await taken(store, COMMAND)
    again = await taken(store, COMMAND)  # a replay under a new GUID
    second = await taken(store, replace(COMMAND, comment_id=6, flaky=True))
    assert first == again == second != automatic
    attempt = await store.attempt(first)
    assert attempt is not None
    assert [(request.comment_id, request.flaky) for request in attempt.requests] == [(5, False), (6, True)]
    elsewhere = await taken(store, replace(COMMAND, comment_id=7, pull_number=4))
    async with store.lease(first, "w1"):
        third = await taken(store, replace(COMMAND, comment_id=8))
    assert len({first, elsewhere, third}) == 3


async def test_ignored_and_refused_deliveries_are_noted(store: Store) -> None:
    await taken(store, Ignored("nothing to do"))
    await taken(store, Ignored("a fork", refused=True))
    async with store.database.read() as session:
        rows = list(await session.scalars(select(DeliveryRow).order_by(DeliveryRow.decision)))
    assert [(row.decision, row.reason) for row in rows] == [("ignored", "nothing to do"), ("refused", "a fork")]
    assert await store.attempts() == []


async def test_a_push_supersedes_the_attempt_on_the_head_it_left(store: Store) -> None:
    old, new = await taken(store, run_of(SHA, head_branch="fix")), await taken(store, run_of(NEWER, head_branch="fix"))
    await taken(store, PUSHED)
    left, current = await store.attempt(old), await store.attempt(new)
    assert left is not None
    assert current is not None
    assert (left.outcome, current.status) == (Outcome.SUPERSEDED, "queued")


async def test_a_late_push_event_does_not_end_the_newer_heads_attempt(store: Store) -> None:
    newest = await taken(store, run_of("c" * 40, head_branch="fix"))
    await taken(store, PUSHED)
    attempt = await store.attempt(newest)
    assert attempt is not None
    assert attempt.status == "queued"


async def test_a_running_attempt_is_superseded_at_its_next_heartbeat(store: Store) -> None:
    attempt_id = await taken(store, run_of(SHA, head_branch="fix"))
    with pytest.raises(AttemptCancelled):  # noqa: PT012
        async with store.lease(attempt_id, "w1"):
            await taken(store, PUSHED)
            await asyncio.sleep(10)
    attempt = await store.attempt(attempt_id)
    assert attempt is not None
    assert attempt.outcome is Outcome.SUPERSEDED


@pytest.mark.parametrize("merged", [True, False])
async def test_closing_a_pull_request_cancels_its_commands_but_not_what_its_branch_needs(store: Store, merged: bool) -> None:
    """The branch may live on, as `develop` does after each release, or have another pull request: the worker looks."""
    command, automatic = await taken(store, COMMAND), await taken(store, run_of(SHA, head_branch="fix", workflow_id=5))
    await taken(store, replace(CLOSED, merged=merged))
    closed, kept = await store.attempt(command), await store.attempt(automatic)
    assert closed is not None
    assert kept is not None
    assert (closed.outcome, closed.reason) == (Outcome.CANCELLED, f"Pull request #3 was {'merged' if merged else 'closed'}.")
    assert kept.status == "queued"


@pytest.mark.parametrize("outcome", [Outcome.CANCELLED, Outcome.SUPERSEDED])
async def test_a_pull_request_that_is_opened_again_can_fail_again(store: Store, outcome: Outcome) -> None:
    """Its workflow runs anew at the same commit: people close and reopen to have CI run again."""
    first = await taken(store, run_of(SHA, head_branch="fix", workflow_id=5))
    async with store.lease(first, "w1") as lease:
        await lease.end(outcome, "It was closed, or its branch deleted.")
    again = await taken(store, run_of(SHA, head_branch="fix", workflow_id=5, run_id=2))
    assert again != first
    assert await taken(store, run_of(SHA, head_branch="fix", workflow_id=5, run_id=3)) == again


async def test_after_a_repair_that_a_person_rejected_a_further_run_of_its_workflow_is_no_news(store: Store) -> None:
    first = await taken(store, run_of(SHA, head_branch="fix", workflow_id=5))
    async with store.lease(first, "w1") as lease:
        await lease.wait(Waiting(Question(text="Publish?", about="publish"), "q1"))
    assert await store.reply(first, approved=False) is None
    async with store.lease(first, "w1") as lease:
        await lease.end(Outcome.CANCELLED, "A person rejected the repair.")
    assert await taken(store, run_of(SHA, head_branch="fix", workflow_id=5, run_id=2)) == first


async def test_our_own_pull_request_takes_its_new_state(store: Store) -> None:
    attempt_id = await taken(store, RUN)
    async with store.lease(attempt_id, "w1") as lease:
        await lease.record_pull_request(PullRequestRecord(3, "selfheal/x", "https://example.org/3"))
        await lease.end(Outcome.HEALED, "done")
    await taken(store, replace(CLOSED, merged=True, head_branch="selfheal/x", head_sha=NEWER))
    attempt = await store.attempt(attempt_id)
    assert attempt is not None
    assert attempt.pull_request is not None
    assert attempt.pull_request.state == "merged"


async def test_uninstalling_cancels_what_waits(store: Store) -> None:
    attempt_id = await taken(store, RUN)
    await taken(store, InstallationChange("deleted", 11, "octo", removed=(REPOSITORY,)))
    attempt = await store.attempt(attempt_id)
    assert attempt is not None
    assert attempt.outcome is Outcome.CANCELLED


async def test_an_installation_event_does_not_forget_the_default_branch(store: Store) -> None:
    await taken(store, replace(RUN, repository=replace(REPOSITORY, default_branch="trunk")))
    await taken(store, InstallationChange("added", 11, "octo", added=(REPOSITORY, RepositoryRef(9, "octo/new"))))
    async with store.database.read() as session:
        branches = list(await session.scalars(select(RepositoryRow.default_branch).order_by(RepositoryRow.id)))
        assert await session.scalar(select(func.count()).select_from(RepositoryRow)) == 2
    assert branches == ["trunk", "main"]
