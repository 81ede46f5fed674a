"""A worker process that heals one attempt: `python -m tests.app.attempt.healer ATTEMPT [KILL_AT]`, settings in the environment.

It kills itself with SIGKILL when an event of the kind KILL_AT ("answered"), or a step of that name ("report"), is told.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys

from agent.contract.events import AnyEvent
from app.clock import SystemClock
from app.queue.queue import Queue
from app.service.run import open_jobs
from app.settings import load
from app.store.leases.leases import Lease
from app.store.store import open_store


async def main(attempt_id: str, kill_at: str = "") -> None:
    record = Lease.record

    async def deadly(self: Lease, event: AnyEvent) -> None:
        if kill_at and kill_at in (type(event).__struct_config__.tag, getattr(event, "step", "")):
            os.kill(os.getpid(), signal.SIGKILL)
        await record(self, event)

    Lease.record = deadly  # type: ignore[method-assign]
    settings = load()
    queue = Queue.to("redis://127.0.0.1:1", settings)  # for commands only
    async with open_store(settings, SystemClock()) as store, open_jobs(settings, store, queue) as jobs:
        await jobs.heal(attempt_id)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
