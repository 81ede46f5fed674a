"""Commands on their way to an attempt, with a real Redis, a real worker and a stand-in of GitHub."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import select

from agent.contract.outcome import Outcome
from app.attempt.commands import CommandDesk
from app.attempt.story import heal
from app.queue.queue import Queue
from app.service.intake import StoreIntake
from app.service.worker import Jobs, run_worker
from app.store.models import DeliveryRow
from tests.app.plant import NAME, Plant, workflow
from tests.app.requests import delivery, taken
from tests.app.waiting import until
from webhooks.intake import RepairRequest
from webhooks.triggers import decide


class Site:
    """A worker with one slot, whose attempts wait for `finish`; webhooks reach it as in the service."""

    def __init__(self, plant: Plant, queue: Queue) -> None:
        self.plant, self.intake = plant, StoreIntake(plant.store, queue)
        self.desk = CommandDesk(plant.store, plant.deps.github, queue.enqueue, "https://heal.example/")
        self.slots: list[str] = []  # attempts that took one
        self.finish = asyncio.Event()

    async def heal(self, attempt_id: str) -> None:
        self.slots.append(attempt_id)
        await self.finish.wait()

    async def comment(self, pull: int, login: str) -> RepairRequest:
        comment = await self.plant.github.comment(NAME, pull, login, "/heal")
        command = replace(
            self.plant.request,
            source="comment",
            head_sha=None,
            head_branch=None,
            sender=login,
            comment_id=comment.id,
            pull_number=pull,
            title=f"/heal by {login}",
        )
        await self.intake.take(delivery(), command)
        return command

    def lookups(self, login: str) -> int:
        return sum(f"/collaborators/{login}/permission" in request for request in self.plant.github.requests)

    async def refused(self) -> list[str]:
        async with self.plant.store.database.read() as session:
            return list(await session.scalars(select(DeliveryRow.reason).where(DeliveryRow.decision == "refused")))


@asynccontextmanager
async def working(plant: Plant, redis_url: str, *first: tuple[int, str]) -> AsyncIterator[Site]:
    """`first`: pull requests and authors of the commands that are pending when the worker starts."""
    settings = plant.settings.model_copy(update={"worker_jobs": 1, "sweep_seconds": 0.2})
    queue = Queue.to(redis_url, settings)
    site = Site(plant, queue)
    for number, login in first:
        await site.comment(number, login)
    worker = asyncio.create_task(run_worker(settings, plant.store, redis_url, Jobs(site.heal, site.desk.decide)))
    try:
        yield site
    finally:
        site.finish.set()
        worker.cancel()
        await asyncio.wait({worker})
        await queue.close()


async def pull(plant: Plant, branch: str) -> int:
    await plant.github.push(NAME, branch, {f"{branch}.txt": "x"})
    return (await plant.github.open_pull(NAME, branch)).number


@pytest.mark.long
async def test_thirty_strangers_take_no_slot_and_a_maintainer_goes_through(plant: Plant, redis_url: str) -> None:
    plant.github.add_collaborator(NAME, "maria", "write")
    number = await pull(plant, "topic")
    people = [*(f"stranger{stranger}" for stranger in range(30)), "maria"]
    async with working(plant, redis_url, *((number, login) for login in people)) as site:
        await until(lambda: bool(site.slots))
        (attempt,) = await plant.store.attempts()
        assert [request.sender for request in attempt.requests] == ["maria"]
        assert site.slots == [attempt.id]

        async def all_refused() -> bool:
            return len(await site.refused()) == 30

        await until(all_refused)
        assert max(site.lookups(f"stranger{stranger}") for stranger in range(30)) == 1
        assert len(plant.github.reactions(NAME)) <= 5


async def test_commands_are_decided_while_every_slot_is_taken_and_merged_until_one_is_free(
    plant: Plant, redis_url: str
) -> None:
    plant.github.add_collaborator(NAME, "maria", "write")
    first, second = await pull(plant, "one"), await pull(plant, "two")
    async with working(plant, redis_url) as site:
        await site.comment(first, "maria")
        await until(lambda: bool(site.slots))
        for _ in range(5):
            await site.comment(second, "maria")

        async def is_merged() -> bool:
            attempts = await plant.store.attempts()
            return sorted(len(attempt.requests) for attempt in attempts) == [1, 5]

        await until(is_merged)
        assert len(site.slots) == 1
        assert site.lookups("maria") == 1, "it is remembered for a minute"


@pytest.mark.long
async def test_a_used_up_quota_is_told_once_on_the_pull_request(plant: Plant, redis_url: str) -> None:
    plant.github.add_collaborator(NAME, "maria", "write")
    first, second = await pull(plant, "one"), await pull(plant, "two")
    terms = plant.store._terms
    quota = replace(terms.quotas.person, attempts=replace(terms.quotas.person.attempts, most=1))
    plant.store._terms = replace(terms, quotas=replace(terms.quotas, person=quota))
    async with working(plant, redis_url) as site:
        await site.comment(first, "maria")
        await until(lambda: bool(site.slots))
        for _ in range(3):
            await site.comment(second, "Maria")

        async def all_refused() -> bool:
            return len(await site.refused()) == 3

        await until(all_refused)
        await until(lambda: len(plant.github.comments(NAME, second)) > 3)
        (told,) = plant.github.comments(NAME, second)[3:]
        assert "The quota of 1 attempt per person and day is used up until " in told.body
        assert told.body.endswith(
            "It is set by SELFHEAL_PERSON_ATTEMPTS_PER_DAY. [What is used today](https://heal.example/). Comment it again then."
        )
        assert len(await plant.store.attempts()) == 1


async def commanded(plant: Plant, number: int, login: str) -> str:
    """A command as its delivery comes, in an attempt that ran."""
    attempt_id = await delivered(plant, number, login)
    await heal(attempt_id, replace(plant.deps, pages_url="https://heal.example/"))
    return attempt_id


async def delivered(plant: Plant, number: int, login: str) -> str:
    await plant.github.comment(NAME, number, login, "/heal")
    told = [delivery for delivery in plant.github.deliveries if delivery.event == "issue_comment"][-1]
    return await taken(plant.store, decide("issue_comment", told.body, plant.github.app_id)[1])


@pytest.mark.parametrize("where", ["fork", "closed", "merged"])
async def test_who_may_write_is_told_once_why_a_pull_request_is_not_healed(plant: Plant, where: str) -> None:
    github = plant.github
    github.add_collaborator(NAME, "maria", "write")
    if where == "fork":
        await github.fork(NAME, "bob")
        await github.push("bob/boiler", "topic", {"calc.py": "x = 1\n"})
        number = (await github.open_pull(NAME, "bob:topic", login="bob")).number
        why = "The pull request comes from a fork; Selfheal only repairs branches of this repository. Push the branch "
    else:
        number = await pull(plant, "topic")
        await github.close_pull(NAME, number, merged=where == "merged")
        why = f"Pull request #{number} is closed. Reopen it, then comment `/heal`."
        if where == "merged":
            why = f"Pull request #{number} is merged, so its branch is not repaired. If main fails now, "
    for _ in range(2):
        attempt = await plant.attempt(await commanded(plant, number, "maria"))
        assert attempt.outcome is Outcome.REFUSED
        assert attempt.is_reported
    (told,) = [comment for comment in github.comments(NAME, number) if comment.user.login != "maria"]
    assert why in told.body
    assert told.body.endswith(f" [Timeline of this attempt](https://heal.example/attempts/{attempt.id}).")
    assert [reaction.content for reaction in github.reactions(NAME)] == ["confused", "confused"]


@pytest.mark.parametrize("is_its_own", [True, False])
@pytest.mark.parametrize("is_old", [False, True])
async def test_on_a_green_pull_request_that_failed_in_the_merge_queue_that_is_told(
    plant: Plant, is_its_own: bool, is_old: bool
) -> None:
    """What failed before the newest commit was made says nothing about it."""
    github = plant.github
    github.add_collaborator(NAME, "maria", "write")
    number = await pull(plant, "topic")
    queue = f"gh-readonly-queue/main/pr-{number if is_its_own else number + 1}-{'c' * 40}"
    await github.push(NAME, queue, {".github/workflows/ci.yml": workflow(run="exit 1")})
    await github.settled()
    github.runs(NAME)[-1].event = "merge_group"
    github.runs(NAME)[-1].created -= timedelta(hours=is_old)
    attempt = await plant.attempt(await commanded(plant, number, "maria"))
    assert attempt.outcome is Outcome.NOTHING_FAILED
    told = "CI failed in GitHub's merge queue, not on this branch. Merge `main` into it: if CI fails then, an attempt starts."
    is_told = is_its_own and not is_old
    assert (attempt.next_step == told) is is_told
    (comment,) = [comment for comment in github.comments(NAME, number) if comment.user.login != "maria"]
    assert (told in comment.body.replace("\u200b", "")) is is_told


async def test_a_repository_that_is_renamed_before_a_command_is_handled_is_no_fork(plant: Plant) -> None:
    plant.github.add_collaborator(NAME, "maria", "write")
    number = await pull(plant, "topic")
    attempt_id = await delivered(plant, number, "maria")
    plant.github.repository(NAME).name = "Boiler"
    await heal(attempt_id, plant.deps)
    attempt = await plant.attempt(attempt_id)
    assert attempt.outcome is not Outcome.REFUSED, attempt.reason


async def test_a_stranger_gets_no_comment_on_a_closed_pull_request(plant: Plant) -> None:
    number = await pull(plant, "topic")
    await plant.github.close_pull(NAME, number)
    await commanded(plant, number, "eve")
    assert [comment.user.login for comment in plant.github.comments(NAME, number)] == ["eve"]


async def test_a_command_that_lacks_a_permission_is_answered(plant: Plant, redis_url: str) -> None:
    plant.github.add_collaborator(NAME, "maria", "write")
    number = await pull(plant, "topic")
    del plant.github.installation("acme").permissions["checks"]
    async with working(plant, redis_url) as site:
        await site.comment(number, "maria")
        await until(lambda: bool(site.slots))
        await heal(site.slots[0], replace(plant.deps, pages_url="https://heal.example/"))
    (told,) = [comment for comment in plant.github.comments(NAME, number) if comment.user.login != "maria"]
    assert "The App lacks a permission on GitHub: the installation does not grant checks=read" in told.body
    assert "and an owner of `acme` to accept that in the installation. Then comment `/heal`." in told.body
    assert told.body.endswith(f" [Timeline of this attempt](https://heal.example/attempts/{site.slots[0]}).")


async def test_a_command_waits_while_github_does_not_answer(plant: Plant, redis_url: str) -> None:
    plant.github.add_collaborator(NAME, "maria", "write")
    number = await pull(plant, "topic")
    plant.github.faults.status("GET", f"/repos/{NAME}/collaborators/*", 502, times=2)
    async with working(plant, redis_url) as site:
        await site.comment(number, "maria")
        await until(lambda: site.lookups("maria") >= 2)
        assert await plant.store.attempts() == []
        assert await site.refused() == []
