"""A whole service that is idle until something fails: how soon a worker takes it, how soon the pull request is there, and how
much memory web and worker have meanwhile.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from pathlib import Path

import httpx

from app.clock import SystemClock
from app.settings import load
from app.store.store import Store, open_store
from deploy.demo import BUGS, broken, sample_files
from tests.bench import memory
from tests.bench.table import Figure, Say, spread
from tests.bench.webhooks import Failures
from tests.standins.github import GitHub
from tests.story.service import Service, running
from tests.story.story import until

PICKUPS = 15
HEALINGS = 3
PATIENCE = 60.0  # seconds for one of them


async def measure(folder: Path, say: Say) -> list[Figure]:
    """Raises `AssertionError` or `TimeoutError` where something does not come."""
    async with (
        GitHub(judged=False) as github,
        running(github, folder, {"SELFHEAL_MODEL": "none", "SELFHEAL_MAX_TRIES": "1"}) as service,
        open_store(load(data_dir=folder / "data"), SystemClock()) as store,
    ):
        await until(lambda: '"ready"' in service.log("worker"), "no worker was ready", PATIENCE)
        async with httpx.AsyncClient() as client:
            await client.get(service.pages)
        worker = service.workers[0].pid
        idle = memory.pss(worker)
        say(f"the worker is ready, {idle:.0f} MB")
        picked_up = [await _picked_up(github, service, store) for _ in range(PICKUPS)]
        say(f"picked up after {spread(picked_up, 'ms', 0)}")
        watching = asyncio.create_task(_most(worker))
        healed = []
        for number in range(HEALINGS):
            healed.append(await _healed(github, f"acme/parcel-{number}"))
            say(f"pull request {number + 1} of {HEALINGS} after {healed[-1]:.1f} s")
        watching.cancel()
        busy, with_sandboxes = await watching
        web = memory.pss(service.web.pid)
    return [
        Figure("pickup: delivered until claimed", spread(picked_up, "ms", 0), "≤ 50 ms", statistics.median(picked_up) <= 50),
        Figure("sample: delivered until pull request", spread(healed, "s", 1), "≤ 10 s", statistics.median(healed) <= 10),
        Figure("memory: web, after all that", f"{web:.0f} MB", "≤ 110 MB", web <= 110, "PSS"),
        Figure("memory: worker, idle", f"{idle:.0f} MB", note="PSS"),
        Figure("memory: worker, busy, at most", f"{busy:.0f} MB", note="PSS"),
        Figure("  with its sandboxes", f"{with_sandboxes:.0f} MB", note="PSS"),
    ]


async def _picked_up(github: GitHub, service: Service, store: Store) -> float:
    """Milliseconds from an attempt's row to its claim by an idle worker. Its repository does not exist, so it ends at once."""
    body, guid = Failures(github.webhook_secret.encode()).payload()
    async with httpx.AsyncClient() as client:
        answer = await client.post(f"{service.url}/webhooks/github", content=body, headers=guid)
    attempt_id = answer.json()["attempt"]
    async with asyncio.timeout(PATIENCE):
        while True:
            attempt = await store.attempt(attempt_id)
            if attempt is not None and attempt.status == "ended":
                break
            await asyncio.sleep(0.05)
    assert attempt.started_at is not None, attempt.reason
    return (attempt.started_at - attempt.created_at).total_seconds() * 1000


async def _healed(github: GitHub, repository: str) -> float:
    """Seconds from the delivery that says that a run has failed to the pull request that mends it."""
    await github.create_repository(repository, sample_files())
    sha = await github.push(repository, "main", broken(BUGS["easy"]), BUGS["easy"].message)
    await until(lambda: _is_delivered(github, sha), "no failed run was delivered", PATIENCE)
    began = time.monotonic()
    await until(lambda: bool(github.pull_requests(repository, "all")), "no pull request came", PATIENCE)
    return time.monotonic() - began


def _is_delivered(github: GitHub, sha: str) -> bool:
    failed = (delivery for delivery in github.deliveries if (delivery.event, delivery.action) == ("workflow_run", "completed"))
    return any(sha.encode() in delivery.body for delivery in failed)


async def _most(pid: int) -> tuple[float, float]:
    """The most megabytes until cancelled: of the process, and of it with everything below it."""
    alone, together = 0.0, 0.0
    try:
        while True:
            own, below = await asyncio.to_thread(lambda: (memory.pss(pid), memory.total(memory.below(pid))))
            alone, together = max(alone, own), max(together, own + below)
            await asyncio.sleep(0.25)
    except asyncio.CancelledError:
        return alone, together
