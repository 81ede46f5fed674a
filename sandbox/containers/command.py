"""One command in one container, from create to remove: fed, bounded, ended at its deadline, judged.

The container dies with whoever waits for it here; what this process leaves behind when it is killed is the sweeper's.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from secrets import token_hex
from typing import Any

import aiodocker
import aiohttp
from aiodocker.containers import DockerContainer
from aiodocker.stream import Stream

from sandbox.base import Completed, DeadlinePassed, SandboxLost
from sandbox.containers.engine import CALL_SECONDS, Engine, told
from sandbox.containers.spec import Job, Recipe
from sandbox.host.launch import Ends

DRAIN_SECONDS = 5.0
STDERR = 2
CHUNK = 1 << 16


async def run(engine: Engine, recipe: Recipe, job: Job) -> Completed:
    """Raises `DeadlinePassed`, `SandboxLost`."""
    mark = f"memory-{token_hex(8)}"
    container = await engine.create(recipe.of(job, mark))
    try:
        return await _run(engine, container, job, mark.encode())
    except SandboxLost as lost:
        raise SandboxLost(lost.reason, tuple(job.argv)) from lost
    finally:
        await asyncio.shield(engine.drop(container))


async def _run(engine: Engine, container: DockerContainer, job: Job, mark: bytes) -> Completed:
    out, err = Ends(job.output_limit), Ends(job.output_limit)
    feeding: asyncio.Task[None] | None = None
    # Attached before it starts: nothing that it says is missed.
    async with following(container) as stream:
        try:
            if job.stdin:
                feeding = asyncio.create_task(_feed(container, job.stdin))
            await engine.start(container)
            started = time.monotonic()
            try:
                async with asyncio.timeout(job.timeout):
                    await _read(stream, out, err)
                    state = await ended(engine, container)
            except TimeoutError:
                await engine.kill(container)
                with suppress(TimeoutError, SandboxLost):
                    async with asyncio.timeout(DRAIN_SECONDS):
                        await _read(stream, out, err)
                raise DeadlinePassed(job.timeout, out.value(), err.value()) from None
            return _judged(state, (out, err), time.monotonic() - started, mark)
        finally:
            if feeding is not None:
                feeding.cancel()
                await asyncio.wait((feeding,))


@asynccontextmanager
async def following(container: DockerContainer) -> AsyncIterator[Stream]:
    """What the container says, from when it starts."""
    stream = container.attach(stdout=True, stderr=True)
    with told("follow a command"):
        async with asyncio.timeout(CALL_SECONDS):
            await stream.__aenter__()
    try:
        yield stream
    finally:
        await stream.close()


async def ended(engine: Engine, container: DockerContainer) -> Mapping[str, Any]:
    """Its state, once it has ended. Asked often at first: it has closed its output, and Podman's own `wait` looks rarely."""
    pause = 0.005
    while (state := await engine.state(container))["Running"]:
        await asyncio.sleep(pause)
        pause = min(pause * 2, 0.25)
    return state


async def _read(stream: Stream, out: Ends, err: Ends) -> None:
    with told("follow a command"):
        while (message := await stream.read_out()) is not None:
            (err if message.stream == STDERR else out).add(message.data)


async def _feed(container: DockerContainer, content: bytes) -> None:
    """A connection of its own, whose end is the end of the input. Who does not read their input need not be fed."""
    with suppress(aiodocker.DockerError, aiohttp.ClientError, OSError):
        async with container.attach(stdin=True) as stream:
            for start in range(0, len(content), CHUNK):
                await stream.write_in(content[start : start + CHUNK])


def _judged(state: Mapping[str, Any], said: tuple[Ends, Ends], seconds: float, mark: bytes) -> Completed:
    out, err = said
    code, stderr = int(state["ExitCode"]), err.value()
    starved = bool(state.get("OOMKilled")) or stderr.endswith(mark)
    return Completed(
        128 - code if code > 128 else code,  # as shells and engines tell a signal
        out.value(),
        stderr.removesuffix(mark),
        seconds,
        out.truncated or err.truncated,
        starved,
    )
