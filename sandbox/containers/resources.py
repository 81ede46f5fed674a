"""What one sandbox has in its engine: the volumes, keepers and commands that carry its labels, and how all of it goes again.

Everything is labelled with the installation (whose sweeper may take it) and the sandbox (a folder on the worker's machine,
locked while its worker lives): what belongs to a folder that is no more was left by a dead worker. Knows nothing of what is
run, or why.
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
from sandbox.containers.engine import Engine, Facts
from sandbox.containers.files import TOP, WORK
from sandbox.containers.spec import USER, Job, Mount, Recipe
from sandbox.containers.tars import Packing

INSTALLATION, SANDBOX = "selfheal.installation", "selfheal.sandbox"
PAGE = 4096
READY_SECONDS = 300.0
_FOREVER = "exec sleep 2147483647"


class House:
    """The engine's side of one open sandbox."""

    def __init__(self, engine: Engine, facts: Facts, recipe: Recipe) -> None:
        self._engine, self._facts, self.recipe = engine, facts, recipe

    @property
    def engine(self) -> Engine:
        return self._engine

    @property
    def limits(self) -> Limits:
        return self.recipe.limits

    async def run(self, job: Job) -> Completed:
        return await command.run(self._engine, self.recipe, job)

    async def volume(self) -> str:
        return await self._engine.volume(self.recipe.labels)

    async def bounded_volume(self) -> str:
        """In memory and with a size where the engine may mount such a one; as every other, else."""
        if unbounded(self._facts):
            return await self.volume()
        # Podman would take `size` for a quota of its disk. Pages are the same bound in other words.
        size = f"nr_blocks={self.limits.disk // PAGE},nr_inodes=1000000"
        options = {"type": "tmpfs", "device": "tmpfs", "o": f"{size},uid={USER},gid={USER},mode=0755,nosuid,nodev"}
        return await self._engine.volume(self.recipe.labels, options)

    async def drop_volume(self, name: str) -> None:
        await self._engine.drop_volume(name)

    async def keeper(self, mounts: Sequence[Mount]) -> DockerContainer:
        """A container that never starts: through it the engine reads and writes volumes."""
        return await self._engine.create(self.recipe.of(Job(("true",), mounts, {}, "/", 0.0), "keeper"))

    async def make_top(self, keeper: DockerContainer) -> None:
        """The workspace's folder in a volume of the disk, whose own top may be root's."""
        packing = Packing()
        try:
            packing.folder(TOP)
            await self._engine.put(keeper, WORK, packing.finish())
        finally:
            packing.close()

    async def running_keeper(self, mounts: Sequence[Mount], script: str) -> DockerContainer:
        """One that has done `script` and then sleeps, so that volumes in memory stay. Raises `SandboxUnavailable`."""
        # What it fills such a volume with counts as its memory.
        limits = replace(self.limits, memory=self.limits.memory + self.limits.disk, file_size=self.limits.disk)
        job = Job(("/bin/sh", "-ec", f"{script}\necho ready\n{_FOREVER}"), mounts, {"PATH": "/usr/bin:/bin"}, "/", 0.0)
        keeper = await self._engine.create(replace(self.recipe, limits=limits).of(job, "keeper"))
        try:
            if unbounded(self._facts):
                await self.make_top(keeper)
            async with command.following(keeper) as said, asyncio.timeout(READY_SECONDS):
                await self._engine.start(keeper)
                output = b""
                while b"ready\n" not in output:
                    message = await said.read_out()
                    if message is None:
                        raise SandboxUnavailable(f"a workspace cannot be made: {output.decode(errors='replace').strip()[:300]}")
                    output = output[-1000:] + message.data
        except BaseException as error:
            await asyncio.shield(self._engine.drop(keeper))
            if isinstance(error, TimeoutError):
                raise SandboxUnavailable("a workspace was not made in time") from error
            raise
        return keeper

    async def drop(self, container: DockerContainer) -> None:
        await self._engine.drop(container)

    async def clear(self) -> None:
        """Remove all that this sandbox has in the engine."""
        await clear(self._engine, f"{SANDBOX}={self.recipe.labels[SANDBOX]}", lambda labels: True)


def unbounded(facts: Facts) -> bool:
    """Whether the engine may not mount volumes in memory: a rootless Podman."""
    return facts.podman and facts.rootless


def installation(folder: Path) -> str:
    """Who the worker's folder of sandboxes belongs to: several machines may share one engine."""
    return hashlib.sha256(f"{platform.node()}:{folder.resolve()}".encode()).hexdigest()[:24]


async def sweep(engine: Engine, folder: Path) -> None:
    """Remove what sandboxes of this installation left whose own folder in `folder` is no more."""
    await clear(
        engine, f"{INSTALLATION}={installation(folder)}", lambda labels: not (folder / labels.get(SANDBOX, "-")).exists()
    )


async def clear(engine: Engine, label: str, gone: Callable[[Mapping[str, str]], bool]) -> None:
    containers = [container for container, labels in await engine.labelled(label) if gone(labels)]
    await asyncio.gather(*(engine.drop(container) for container in containers))
    volumes = [name for name, labels in await engine.labelled_volumes(label) if gone(labels)]
    await asyncio.gather(*(engine.drop_volume(name) for name in volumes))
