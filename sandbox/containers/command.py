"""Runs one command in a container of its own, from create to remove.

Cancelling the call removes the container; the sweeper removes those of a killed worker.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from secrets import token_hex
from typing import Any

import aiodocker
import aiohttp
from aiodocker.containers import DockerContainer
from aiodocker.stream import Stream

from sandbox.base import Completed, DeadlinePassed, SandboxLost
from sandbox.containers.engine import CALL_SECONDS, Engine, engine_errors
from sandbox.containers.spec import ContainerSpec
from sandbox.host.job import Job, Mount
from sandbox.host.launch import BoundedOutput

DRAIN_SECONDS = 5.0
STDERR = 2
CHUNK = 1 << 16


async def run(engine: Engine, spec: ContainerSpec, job: Job, binds: Sequence[Mount] = ()) -> Completed:
    """Raises `DeadlinePassed`, `SandboxLost`."""
    mark = f"memory-{token_hex(8)}"
    container = await engine.create(spec.create_body(job, mark, binds))
    try:
        return await _run(engine, container, job, mark.encode())
    except SandboxLost as lost:
        raise SandboxLost(lost.reason, tuple(job.argv)) from lost
    finally:
        await asyncio.shield(engine.drop(container))


async def _run(engine: Engine, container: DockerContainer, job: Job, mark: bytes) -> Completed:
    out, err = BoundedOutput(job.output_limit), BoundedOutput(job.output_limit)
    feeding: asyncio.Task[None] | None = None
    # Attach before the start, so that no output is lost.
    async with following(container) as stream:
        try:
            if job.stdin:
                feeding = asyncio.create_task(_feed(container, job.stdin))
            await engine.start(container)
            started = time.monotonic()
            try:
                async with asyncio.timeout(job.timeout):
                    await _read(stream, out, err)
                    state = await wait_for_end(engine, container)
            except TimeoutError:
                await engine.kill(container)
                with suppress(TimeoutError, SandboxLost):
                    async with asyncio.timeout(DRAIN_SECONDS):
                        await _read(stream, out, err)
                raise DeadlinePassed(job.timeout, out.value(), err.value()) from None
            return _completed(state, (out, err), time.monotonic() - started, mark)
        finally:
            if feeding is not None:
                feeding.cancel()
                await asyncio.wait((feeding,))


@asynccontextmanager
async def following(container: DockerContainer) -> AsyncIterator[Stream]:
    """The output stream of a container that has not started yet."""
    stream = container.attach(stdout=True, stderr=True)
    with engine_errors("follow a command"):
        async with asyncio.timeout(CALL_SECONDS):
            await stream.__aenter__()
    try:
        yield stream
    finally:
        await stream.close()


async def wait_for_end(engine: Engine, container: DockerContainer) -> Mapping[str, Any]:
    """Wait for the container's end; returns its state. Polls, because Podman's own `wait` polls too slowly."""
    pause = 0.005
    while (state := await engine.state(container))["Running"]:
        await asyncio.sleep(pause)
        pause = min(pause * 2, 0.25)
    return state


async def _read(stream: Stream, out: BoundedOutput, err: BoundedOutput) -> None:
    with engine_errors("follow a command"):
        while (message := await stream.read_out()) is not None:
            (err if message.stream == STDERR else out).add(message.data)


async def _feed(container: DockerContainer, content: bytes) -> None:
    """Write standard input on a connection of its own; closing it ends the input. A command may ignore its input."""
    with suppress(aiodocker.DockerError, aiohttp.ClientError, OSError):
        async with container.attach(stdin=True) as stream:
            for start in range(0, len(content), CHUNK):
                await stream.write_in(content[start : start + CHUNK])


def _completed(
    state: Mapping[str, Any], streams: tuple[BoundedOutput, BoundedOutput], seconds: float, mark: bytes
) -> Completed:
    out, err = streams
    code, stderr = int(state["ExitCode"]), err.value()
    starved = bool(state.get("OOMKilled")) or stderr.endswith(mark)
    return Completed(
        128 - code if code > 128 else code,  # 128 + signal, as in shells
        out.value(),
        stderr.removesuffix(mark),
        seconds,
        out.truncated or err.truncated,
        starved,
    )
