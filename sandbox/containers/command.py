"""Confines one command's container and runs it, from its creation to its removal.

Each command gets a fresh container: no network, no capabilities and no way to gain any, a read-only root file system, an
unprivileged user, the engine's system call filter, and limits on every resource. Of the host, it sees only `binds`. Process 1
is Selfheal's own script: background processes die with the command, signal numbers are kept, and memory kills are reported
even if the engine does not. Cancelling the call removes the container; the sweeper removes the containers of a killed worker.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from secrets import token_hex
from typing import Any

import aiodocker
import aiohttp
from aiodocker.containers import DockerContainer
from aiodocker.stream import Stream

from sandbox.base import MIB, Completed, DeadlinePassed, Limits, SandboxLost
from sandbox.containers.engine import CALL_SECONDS, Engine, engine_errors
from sandbox.host.job import Job, Mount
from sandbox.host.launch import BoundedOutput

USER = 65532  # unused elsewhere, because with an engine that runs as root the host uses the same number
TMP_BYTES = 512 * MIB
UNREADABLE = """
folder=/tmp/.first first=$1; shift
mkdir "$folder" && cp /bin/sh "$folder/sh" && chmod 0111 "$folder/sh" && exec "$folder/sh" -c "$first" "$0" "$@"
exit 125
"""
"""Replaces the shell by a copy that cannot be read: the code cannot open such a process 1 (see `jail.bubblewrap.FIRST`)."""
FIRST = """
rm -r /tmp/.first
cd -- "$1" || exit 126
shift
(exec "$@"); code=$?
for kills in /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control; do
    if [ -r "$kills" ]; then
        while read -r name count; do
            if [ "$name" = oom_kill ] && [ "$count" != 0 ]; then printf '%s' "$0" >&2; fi
        done <"$kills"
    fi
done
exit "$code"
"""
"""Runs as process 1 (`$0` is unique to this command). A subshell's `exec` finds programs, not builtins."""


@dataclass(frozen=True, slots=True)
class ContainerSpec:
    """What all containers of one sandbox share."""

    image: str
    limits: Limits
    processors: float
    labels: Mapping[str, str]
    volumes: Sequence[str] = ()  # declared by the image; mounted in memory, with a size limit, instead of on the engine's disk

    def create_body(self, job: Job, mark: str, binds: Sequence[Mount] = ()) -> dict[str, Any]:
        """The body of `POST /containers/create`; `binds` are host folders, mounted read-only."""
        fed = bool(job.stdin)
        return {
            "Image": self.image,
            "Entrypoint": ["/bin/sh", "-c", UNREADABLE, mark],
            "Cmd": [FIRST, job.cwd, *job.argv],
            "Env": [f"{name}={value}" for name, value in job.env.items()],
            "WorkingDir": "/",  # the engine would create any other folder, as root
            "User": f"{USER}:{USER}",
            "Hostname": "sandbox",
            "Labels": dict(self.labels),
            "NetworkDisabled": True,
            "Tty": False,
            "OpenStdin": fed,
            "StdinOnce": fed,
            "AttachStdin": fed,
            "AttachStdout": True,
            "AttachStderr": True,
            "Healthcheck": {"Test": ["NONE"]},  # the image's own check would be one more process
            "HostConfig": self._host(job, binds),
        }

    def _host(self, job: Job, binds: Sequence[Mount]) -> dict[str, Any]:
        limits = self.limits
        ulimits = {
            "fsize": limits.file_size,
            "nofile": limits.open_files,
            "cpu": limits.cpu_seconds,
            "core": 0,
            "memlock": 65536,
            # Counts the user's processes in all sandboxes, so `PidsLimit` is the real limit. Without a value, Podman requests a
            # million, which fails if it may not raise limits.
            "nproc": max(8192, limits.processes),
        }
        return {
            "NetworkMode": "none",
            "ExtraHosts": [f"{name}:127.0.0.1" for name in job.hosts],
            "ReadonlyRootfs": True,
            "CapDrop": ["ALL"],
            "SecurityOpt": ["no-new-privileges"],
            "Privileged": False,
            "IpcMode": "private",
            "Memory": limits.memory,
            "MemorySwap": limits.memory,  # memory plus swap: no swap
            "PidsLimit": limits.processes,
            "NanoCpus": int(self.processors * 1e9),
            "Ulimits": [{"Name": name, "Soft": value, "Hard": value} for name, value in ulimits.items()],
            "Tmpfs": {"/tmp": f"rw,nosuid,nodev,exec,size={min(limits.disk, TMP_BYTES)},mode=1777"},  # noqa: S108 - inside
            "ShmSize": 64 * MIB,
            "LogConfig": {"Type": "none", "Config": {}},  # otherwise the engine keeps all output on its disk
            "RestartPolicy": {"Name": "no"},
            "Mounts": [
                *(self._in_memory(target) for target in self.volumes),
                *(_mount("volume", one.source, one.target, read_only=not one.writable) for one in job.mounts),
                *(_mount("bind", one.source, one.target, read_only=True) for one in binds),
            ],
        }

    def _in_memory(self, target: str) -> dict[str, Any]:
        size = min(self.limits.disk, TMP_BYTES)
        return {"Type": "tmpfs", "Target": target, "TmpfsOptions": {"SizeBytes": size, "Mode": 0o1777}}


def _mount(kind: str, source: str, target: str, *, read_only: bool) -> dict[str, Any]:
    return {"Type": kind, "Source": source, "Target": target, "ReadOnly": read_only}


DRAIN_SECONDS = 5.0
STDERR = 2
CHUNK = 1 << 16


async def run(engine: Engine, spec: ContainerSpec, job: Job, binds: Sequence[Mount] = ()) -> Completed:
    """Run `job` in a new container. Raises `DeadlinePassed`, `SandboxLost`."""
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
    # Attach before starting the container, so that no output is lost.
    async with following(container) as stream:
        try:
            if job.stdin:
                feeding = asyncio.create_task(_feed(container, job.stdin))
            await engine.start(container)
            started = time.monotonic()
            try:
                async with asyncio.timeout(job.timeout):
                    await _read(stream, out, err, job.heard)
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
    with engine_errors("stream a command's output"):
        async with asyncio.timeout(CALL_SECONDS):
            await stream.__aenter__()
    try:
        yield stream
    finally:
        await stream.close()


async def wait_for_end(engine: Engine, container: DockerContainer) -> Mapping[str, Any]:
    """Wait until the container ends; returns its state. Polls, because Podman's own `wait` polls too slowly."""
    pause = 0.005
    while (state := await engine.state(container))["Running"]:
        await asyncio.sleep(pause)
        pause = min(pause * 2, 0.25)
    return state


async def _read(stream: Stream, out: BoundedOutput, err: BoundedOutput, heard: Callable[[bytes], None] | None = None) -> None:
    with engine_errors("stream a command's output"):
        while (message := await stream.read_out()) is not None:
            (err if message.stream == STDERR else out).add(message.data)
            if heard is not None and message.stream == STDERR:
                heard(message.data)


async def _feed(container: DockerContainer, content: bytes) -> None:
    """Write standard input over a separate connection; closing it ends the input. A command may ignore its input."""
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
