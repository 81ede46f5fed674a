"""Many deliveries and several workers; a web process that dies with a delivery in its hands."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import Counter

import httpx

from tests.chaos.stage import PATIENCE, Missed, Stage
from tests.standins.github.deliveries import Attempt as Delivery

_AT_ONCE = 32
_SEED = 20261122


async def storm(count: int, red: int, stage: Stage, name: str) -> None:
    """`count` different deliveries, `red` of them failing runs on branches of four repositories, each sent three times, in
    any order, many at a time. Of each repository's runs the first that is taken has to be worked on soon; the others queue."""
    github = stage.github
    github.deliver_to(None)
    repositories = [await stage.repository(f"{name}-{number}") for number in range(min(4, red))]
    for number in range(red):
        await stage.turns_red(repositories[number % len(repositories)], f"topic-{number}")
    await github.settled()
    talk = await github.open_issue(repositories[0], "What a release")
    while len(stage.deliveries) < count:
        await github.comment(repositories[0], talk.number, "alice", "Nothing to heal here.")
    sent = stage.deliveries
    if (different := len({delivery.guid for delivery in sent})) != count:
        raise Missed(f"{different} different deliveries instead of {count}")
    thrice = [*sent] * 3
    random.Random(_SEED).shuffle(thrice)  # the same in every run
    github.deliver_to(f"{stage.service.url}/webhooks/github")
    began = time.monotonic()
    limit = asyncio.Semaphore(_AT_ONCE)
    async with httpx.AsyncClient(timeout=30, trust_env=False) as client:
        await asyncio.gather(*(_send(client, limit, stage, delivery) for delivery in thrice))
    told = f"{count} deliveries, each three times: {len(thrice)} sent in {time.monotonic() - began:.1f} s"
    stage.notes.append(told)
    if again := await stage.redeliver():
        stage.notes.append(f"{again} were not acknowledged any of three times, and delivered again")
    taken = {delivery.guid for delivery in stage.deliveries if delivery.status_code == 202}
    if lacking := {delivery.guid for delivery in sent} - taken:
        raise Missed(f"{len(lacking)} deliveries were never acknowledged")


async def _send(client: httpx.AsyncClient, limit: asyncio.Semaphore, stage: Stage, delivery: Delivery) -> None:
    async with limit:
        with contextlib.suppress(httpx.HTTPError):
            answer = await client.post(f"{stage.service.url}/webhooks/github", content=delivery.body, headers=delivery.headers)
            repository = delivery.payload["repository"]["full_name"]
            is_first = all(blow.repository != repository for blow in stage.blows)
            if answer.status_code == 202 and is_first and delivery in stage.failed_runs():
                stage.hit(repository)
            delivery.status_code = answer.status_code if delivery.status_code != 202 else 202


async def web_killed(stage: Stage, name: str) -> None:
    """SIGKILL the web process so many milliseconds after a failing run was handed to it; then it is delivered again."""
    github, web = stage.github, f"{stage.service.url}/webhooks/github"
    taken = 0
    for milliseconds in (0, 5, 20, 80, 300):
        github.deliver_to(None)
        repository = await stage.repository(f"{name}-after-{milliseconds}-ms")
        sha = await stage.turns_red(repository)
        await github.settled()
        (failed,) = [one for one in stage.failed_runs() if one.payload["workflow_run"]["head_sha"] == sha]
        github.deliver_to(web)
        sent = github.redeliver(failed)
        await asyncio.sleep(milliseconds / 1000)
        await stage.service.kill_web()
        await github.settled()
        taken += sent.status_code == 202
        await stage.service.start_web()
        if not stage.is_concluded(repository):
            stage.hit(repository)
        again = github.redeliver(failed)
        await github.settled()
        assert again.status_code == 202, again.status
    stage.notes.append(f"{taken} of 5 were acknowledged before the process died")


async def web_restarted(stage: Stage, name: str) -> None:
    """Stop the web process in good order, as an upgrade does, and start it again, twice; what is asked then is done.

    Nobody but the workers has the database open then: the last one to close one of SQLite's takes its WAL away.
    """
    for time_ in ("first", "second"):
        await stage.let_go()
        await stage.service.stop_web()
        await stage.service.start_web()
        repository = await stage.repository(f"{name}-{time_}")
        await stage.turns_red(repository)
        await stage.github.settled()
        stage.hit(repository)


async def shared(heads: int, stage: Stage, name: str) -> None:
    """The same work for one, two and four workers on one Redis: each takes some; attempts/s, and the ratio to one worker."""
    base = 0.0
    for workers in (1, 2, 4):
        while len(stage.service.workers) < workers:
            await stage.service.start_worker()
        await stage.are_ready(workers)
        repositories = [await stage.repository(f"{name}-{workers}-{number}") for number in range(heads)]
        stage.github.deliver_to(None)
        for repository in repositories:
            await stage.turns_red(repository)
        await stage.github.settled()
        stage.github.deliver_to(f"{stage.service.url}/webhooks/github")
        stage.github.runner.enabled = False  # what is measured is the service, not the CI of what it pushes
        failed = [one for one in stage.failed_runs() if one.payload["repository"]["full_name"] in repositories]
        began = time.monotonic()
        stage.hit(failed[0].payload["repository"]["full_name"])
        for delivery in failed:
            stage.github.redeliver(delivery)
        while not all(stage.is_concluded(repository) for repository in repositories):
            if time.monotonic() - began > PATIENCE:
                raise Missed(f"{workers} workers did not end within {PATIENCE:.0f} s")
            await asyncio.sleep(0.2)
        rate = heads / (time.monotonic() - began)
        share = Counter(pid for repository in repositories for pid in stage.workers_of(repository))
        if len(share) != workers:
            raise Missed(f"of {workers} workers only {len(share)} took work")
        base = base or rate
        took = "+".join(str(number) for number in sorted(share.values(), reverse=True))
        stage.notes.append(f"{workers} workers: {rate:.3f} attempts/s, {rate / base:.2f} × one; they took {took}")
        stage.github.runner.enabled = True
