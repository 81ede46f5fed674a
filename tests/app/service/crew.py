"""A worker process for tests: `python -m tests.app.service.crew FOLDER REDIS_URL MODE LOG`.

It does real attempts' bookkeeping and no healing. MODE `hang` never finishes an attempt, `finish` does, `crash` dies by its own
hand. What it does is appended to the file LOG, a line each.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from agent.contract.outcome import Outcome
from app.queue.queue import Queue
from app.service.run import stop_on_signals
from app.service.worker import Heal, Jobs, work, worker_name
from app.settings import Settings, load
from app.store.store import Store


def jobs(heal: Heal) -> Jobs:
    """A worker's jobs without commands."""

    async def decide(repository_id: int, pull_number: int) -> None:
        raise AssertionError("no test of this crew comments")

    return Jobs(heal, decide)


def open_jobs_for(mode: str, log: Path):  # type: ignore[no-untyped-def]
    def note(line: str) -> None:
        with log.open("a") as file:
            file.write(line + "\n")

    @contextlib.asynccontextmanager
    async def open_jobs(settings: Settings, store: Store, queue: Queue) -> AsyncIterator[Jobs]:
        async def heal(attempt_id: str) -> None:
            async with store.lease(attempt_id, worker_name()) as lease:
                note(f"begun {mode}")
                if mode == "hang":
                    await asyncio.sleep(600)
                if mode == "crash":
                    os.kill(os.getpid(), signal.SIGKILL)
                await lease.end(Outcome.HEALED, f"by {mode}")
                note(f"ended {mode}")

        yield jobs(heal)
        note("closed")

    return open_jobs


async def main(folder: str, redis_url: str, mode: str, log: str) -> None:
    settings = load(
        data_dir=folder,
        redis_url=redis_url or None,
        lease_seconds=1.2,
        sweep_seconds=0.2,
        github_webhook_secret="hush",
    )
    with stop_on_signals() as stop:
        await work(settings, open_jobs_for(mode, Path(log)), stop)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
