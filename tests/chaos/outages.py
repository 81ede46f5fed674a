"""What is done to others than the worker: something that the service needs is away for a while, and comes back.

One attempt is under way when it begins, and another red run is delivered while it lasts.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path

from tests.chaos import machine
from tests.chaos.stage import Missed, Stage

Outage = Callable[[Stage], AbstractAsyncContextManager[None]]

_LOCK = """
import sqlite3, sys
held = sqlite3.connect(sys.argv[1], timeout=60, isolation_level=None)
held.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.read()
held.execute("ROLLBACK")
"""


async def outage(of: Outage, seconds: float, stage: Stage, name: str) -> None:
    """Take something away while one attempt runs, let another red run arrive meanwhile, and give it back."""
    running, arriving = await stage.repository(f"{name}-running"), await stage.repository(f"{name}-arriving")
    await stage.turns_red(running)
    await stage.until("the attempt is claimed", partial(stage.is_claimed, running))
    async with of(stage):
        lasting = asyncio.create_task(asyncio.sleep(seconds))
        await stage.turns_red(arriving)
        await stage.github.settled()
        await lasting
    for repository in (running, arriving):
        if not stage.is_concluded(repository):
            stage.hit(repository)
    if again := await stage.redeliver():
        stage.notes.append(f"{again} deliveries were not acknowledged, and delivered again")


@contextlib.asynccontextmanager
async def redis_killed(stage: Stage) -> AsyncIterator[None]:
    assert stage.servers.redis is not None
    await stage.servers.redis.stop()
    try:
        yield
    finally:
        await stage.servers.redis.start()


@contextlib.asynccontextmanager
async def redis_frozen(stage: Stage) -> AsyncIterator[None]:
    assert stage.servers.redis is not None
    stage.servers.redis.signal(signal.SIGSTOP)
    try:
        yield
    finally:
        stage.servers.redis.signal(signal.SIGCONT)


@contextlib.asynccontextmanager
async def redis_flushed(stage: Stage) -> AsyncIterator[None]:
    """Whatever is queued is gone, again and again."""
    redis = stage.servers.redis
    assert redis is not None

    async def flush() -> None:
        while True:
            await redis.flush()
            await asyncio.sleep(0.5)

    flushing = asyncio.create_task(flush())
    try:
        yield
        if flushing.done():
            flushing.result()  # it fell short: nothing was flushed from then on
    finally:
        flushing.cancel()
        await asyncio.wait({flushing})


def embedded_redis(number: signal.Signals) -> Outage:
    """The service's own Redis gets a signal; nobody but the service brings it back."""

    @contextlib.asynccontextmanager
    async def struck(stage: Stage) -> AsyncIterator[None]:
        os.kill(machine.embedded_redis(stage.folder), number)
        yield

    return struck


@contextlib.asynccontextmanager
async def database_locked(stage: Stage) -> AsyncIterator[None]:
    """Another process holds SQLite's write lock."""
    file = stage.folder / "data" / "selfheal.db"
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", _LOCK, str(file), stdin=PIPE, stdout=PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        if await process.stdout.readline() != b"held\n":
            raise Missed("the database could not be locked")
        yield
        if process.returncode is not None:
            raise Missed("the database was not locked for so long")
    finally:
        process.stdin.close()
        await process.wait()


@contextlib.asynccontextmanager
async def postgres_stopped(stage: Stage) -> AsyncIterator[None]:
    """As `systemctl stop` does it: every connection is cut, none is taken."""
    assert stage.servers.postgres is not None
    await asyncio.to_thread(stage.servers.postgres.stop)
    try:
        yield
    finally:
        await asyncio.to_thread(stage.servers.postgres.start)


@contextlib.asynccontextmanager
async def postgres_killed(stage: Stage) -> AsyncIterator[None]:
    """As when its machine goes."""
    assert stage.servers.postgres is not None
    await asyncio.to_thread(stage.servers.postgres.kill)
    try:
        yield
    finally:
        await asyncio.to_thread(stage.servers.postgres.start)


@contextlib.asynccontextmanager
async def github_away(stage: Stage) -> AsyncIterator[None]:
    """Every request is answered 502."""
    stage.github.faults.status("*", "*", 502, times=1_000_000)
    try:
        yield
    finally:
        stage.github.faults.waiting.clear()


@contextlib.asynccontextmanager
async def disk_full(stage: Stage) -> AsyncIterator[None]:
    """The file system of the data folder has no byte left."""
    ballast = stage.folder / "data" / "ballast"
    filling = asyncio.create_task(_fill(ballast))
    try:
        await stage.until("the disk is full", lambda: _true(os.statvfs(ballast.parent).f_bavail == 0))
        yield
    finally:
        filling.cancel()
        await asyncio.wait({filling})
        ballast.unlink()


async def _fill(ballast: Path) -> None:
    """Take whatever becomes free."""
    with ballast.open("wb", buffering=0) as file:
        while True:
            with contextlib.suppress(OSError):
                while True:
                    file.write(b"\0" * 4096)
            await asyncio.sleep(0.1)


async def limited(stage: Stage, name: str) -> None:
    """GitHub asks for patience at a read, at the first write and at the last one, in both of its ways."""
    repository = await stage.repository(name)
    base = f"/repos/{repository}"
    faults = stage.github.faults
    refused: set[str] = set()

    def hit(method: str, path: str) -> None:
        if path not in refused:
            refused.add(path)
            stage.hit(repository)

    def limit(method: str, path: str, seconds: int, times: int, status: int) -> None:
        faults.secondary_limit(method, f"{base}/{path}", retry_after=seconds, times=times, status=status)
        faults.on(method, f"{base}/{path}", hit, "before")

    limit("GET", "actions/runs/*", 3, 2, 403)
    limit("POST", "check-runs", 2, 2, 429)
    limit("POST", "pulls", 5, 1, 403)
    limit("PATCH", "check-runs/*", 2, 1, 429)
    await stage.turns_red(repository)
    await stage.until("GitHub has asked for patience everywhere", lambda: _true(not any(each.times for each in faults.waiting)))


async def tokens_expire(stage: Stage, name: str) -> None:
    """Every token is an hour old in the middle of the search, and again right before the pull request."""
    repository = await stage.repository(name)
    met: list[str] = []

    def expire(where: str) -> None:
        met.append(where)
        stage.github.expire_tokens()
        stage.hit(repository)

    def at_the_end(_method: str, _path: str) -> None:
        if met[-1:] != ["pulls"]:
            expire("pulls")

    stage.github.faults.on("POST", f"/repos/{repository}/pulls", at_the_end, "before")
    await stage.turns_red(repository)
    await stage.until("the attempt begins to propose", partial(stage.has_begun, repository, "propose"))
    expire("search")
    await stage.until("a pull request is opened", lambda: _true("pulls" in met))
    if met != ["search", "pulls"]:
        raise Missed(f"tokens expired in another order: {met}")


async def worker_frozen(stage: Stage, name: str) -> None:
    """SIGSTOP between "is there a check run?" and making one; SIGCONT when another worker has made it.

    Sooner than the product's patience with an answer ends: it would ask again, and find what is there.
    """
    repository = await stage.repository(name)
    frozen: list[int] = []

    def freeze(method: str, path: str) -> None:
        pid = stage.asker(method, path)
        if pid is not None and not frozen:
            os.kill(pid, signal.SIGSTOP)
            frozen.append(pid)
            stage.hit(repository, pid)

    stage.github.faults.on("GET", f"/repos/{repository}/commits/*/check-runs", freeze, "after")
    await stage.turns_red(repository)
    try:
        await stage.until("another worker goes on", lambda: _true(bool(frozen and stage.github.check_runs(repository))))
    finally:
        for pid in frozen:
            os.kill(pid, signal.SIGCONT)
    await asyncio.sleep(5)  # long enough for what it had in mind


async def _true(value: bool) -> bool:
    return value
