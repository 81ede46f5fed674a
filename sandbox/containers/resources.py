"""Creates and removes everything that one sandbox has in its engine: volumes, helper containers and commands.

Each has two labels: the installation, whose sweeper may remove it, and the sandbox, which names a folder on the worker's
machine that is locked while the worker lives. If that folder is gone, a dead worker left the volume or container behind.
"""

from __future__ import annotations

import asyncio
import hashlib
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from aiodocker.containers import DockerContainer

from sandbox.base import Completed, Limits, SandboxUnavailable
from sandbox.containers import command
from sandbox.containers.command import USER, ContainerSpec
from sandbox.containers.engine import Engine, EngineInfo
from sandbox.containers.files import TOP, WORK, TarBuilder
from sandbox.host.job import Job, Mount

INSTALLATION, SANDBOX = "selfheal.installation", "selfheal.sandbox"
PAGE = 4096
READY_SECONDS = 300.0
_FOREVER = "exec sleep 2147483647"


class EngineResources:
    """The volumes and containers of one open sandbox."""

    def __init__(self, engine: Engine, info: EngineInfo, spec: ContainerSpec) -> None:
        self.engine, self._info, self.spec = engine, info, spec

    @property
    def limits(self) -> Limits:
        return self.spec.limits

    async def run(self, job: Job, binds: Sequence[Mount] = ()) -> Completed:
        return await command.run(self.engine, self.spec, job, binds)

    async def volume(self) -> str:
        return await self.engine.volume(self.spec.labels)

    async def bounded_volume(self) -> str:
        """A volume in memory with a size limit; an ordinary volume if the engine may not mount volumes in memory."""
        if unbounded(self._info):
            return await self.volume()
        # Podman treats `size` as a disk quota; a number of pages sets the same limit.
        size = f"nr_blocks={self.limits.disk // PAGE},nr_inodes=1000000"
        options = {"type": "tmpfs", "device": "tmpfs", "o": f"{size},uid={USER},gid={USER},mode=0755,nosuid,nodev"}
        return await self.engine.volume(self.spec.labels, options)

    async def helper(self, mounts: Sequence[Mount]) -> DockerContainer:
        """A container that never starts; the engine reads and writes volumes through it."""
        return await self.engine.create(self.spec.create_body(Job(("true",), mounts, {}, "/", 0.0), "helper"))

    async def make_top(self, helper: DockerContainer) -> None:
        """Create the workspace's folder in a volume on disk, whose top folder may belong to root."""
        with TarBuilder() as tar:
            tar.folder(TOP)
            await self.engine.put(helper, WORK, tar.finish())

    async def running_helper(self, mounts: Sequence[Mount], script: str) -> DockerContainer:
        """A helper that runs `script` and then sleeps, which keeps volumes in memory alive. Raises `SandboxUnavailable`."""
        # What the helper writes to a volume in memory counts as its own memory.
        limits = replace(self.limits, memory=self.limits.memory + self.limits.disk, file_size=self.limits.disk)
        job = Job(("/bin/sh", "-ec", f"{script}\necho ready\n{_FOREVER}"), mounts, {"PATH": "/usr/bin:/bin"}, "/", 0.0)
        helper = await self.engine.create(replace(self.spec, limits=limits).create_body(job, "helper"))
        try:
            if unbounded(self._info):
                await self.make_top(helper)
            async with command.following(helper) as stream, asyncio.timeout(READY_SECONDS):
                await self.engine.start(helper)
                output = b""
                while b"ready\n" not in output:
                    message = await stream.read_out()
                    if message is None:
                        raise SandboxUnavailable(f"cannot create a workspace: {output.decode(errors='replace').strip()[:300]}")
                    output = output[-1000:] + message.data
        except BaseException as error:  # also a cancellation: nobody else knows the helper yet
            await asyncio.shield(self.engine.drop(helper))
            if isinstance(error, TimeoutError):
                raise SandboxUnavailable("creating a workspace timed out") from error
            raise
        return helper

    async def clear(self) -> None:
        """Remove everything this sandbox has in the engine."""
        await clear(self.engine, f"{SANDBOX}={self.spec.labels[SANDBOX]}", lambda labels: True)


def unbounded(info: EngineInfo) -> bool:
    """Whether the engine may not mount volumes in memory. This applies to a rootless Podman."""
    return info.podman and info.rootless


def installation(folder: Path) -> str:
    """An id of the worker's folder of sandboxes, because several machines may share one engine."""
    return hashlib.sha256(f"{platform.node()}:{folder.resolve()}".encode()).hexdigest()[:24]


async def sweep(engine: Engine, folder: Path) -> None:
    """Remove the volumes and containers of this installation's sandboxes whose folder below `folder` is gone."""
    await clear(
        engine, f"{INSTALLATION}={installation(folder)}", lambda labels: not (folder / labels.get(SANDBOX, "-")).exists()
    )


async def clear(engine: Engine, label: str, gone: Callable[[Mapping[str, str]], bool]) -> None:
    containers = [container for container, labels in await engine.labelled(label) if gone(labels)]
    await asyncio.gather(*(engine.drop(container) for container in containers))
    volumes = [name for name, labels in await engine.labelled_volumes(label) if gone(labels)]
    await asyncio.gather(*(engine.drop_volume(name) for name in volumes))
