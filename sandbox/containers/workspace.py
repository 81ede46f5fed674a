"""One workspace of a container sandbox, the base or a candidate: its commands, files and environment."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from secrets import token_hex

from aiodocker.containers import DockerContainer

from sandbox.base import MIB, Command, Completed, Entry, Installed, InstallFailed, Packages, SandboxLost
from sandbox.containers.files import ROOT, WORK, ContainerFiles
from sandbox.containers.images import ASK_SECONDS, Image
from sandbox.containers.install_backend import ENV, ENVIRONMENTS, InstallTarget, open_backend
from sandbox.containers.resources import EngineResources
from sandbox.host.job import Job, Mount, job_of
from sandbox.host.running_commands import RunningCommands
from sandbox.install.packages import PackageStore, install


@dataclass(frozen=True, slots=True)
class ContainerContext:
    """What the workspaces of one sandbox share. `folder` is the sandbox's folder on this machine."""

    resources: EngineResources
    image: Image
    tools: Mount
    store: PackageStore
    folder: Path


class DockerWorkspace:
    """The base or a candidate. `env` is the volume of its environment, possibly its base's."""

    root = ROOT

    def __init__(
        self, context: ContainerContext, volume: str, helper: DockerContainer, env: str | None, *, writable: bool
    ) -> None:
        self._context, self.volume, self._helper, self._writable = context, volume, helper, writable
        self._files = ContainerFiles(context.resources.engine, helper, context.resources.limits.disk)
        self._running = RunningCommands()
        self._open = True
        self._own_env: str | None = None
        self.env = env

    @property
    def python(self) -> str:
        return f"{ENV}/bin/python" if self.env else self._context.image.python or "python3"

    async def run(self, command: Command) -> Completed:
        return await self.perform(command, writable=self._writable)

    async def perform(self, command: Command, *, writable: bool) -> Completed:
        """Run `command` with the workspace's files writable or read-only."""
        mounts = [Mount(self.volume, WORK, writable), self._context.tools]
        mounts += [Mount(self.env, ENVIRONMENTS)] if self.env else []
        return await self._execute(
            job_of(command, ROOT, mounts, self._context.image.environment(prepared=self.env is not None))
        )

    async def read(self, path: str, limit: int = 16 * MIB) -> bytes:
        self._check_open()
        return await self._files.read(path, limit)

    async def write(self, path: str, content: bytes, *, executable: bool | None = None) -> None:
        self._check_open()
        await self._files.write(path, content, executable)

    async def remove(self, path: str) -> None:
        self._check_open()
        # The engine's API cannot remove files. Whatever replaces the file meanwhile is inside the container as well.
        if inside := await self._files.removable(path):
            mounts = (Mount(self.volume, WORK, writable=True),)
            job = Job(("rm", "-f", "--", inside), mounts, self._context.image.environment(prepared=False), "/", ASK_SECONDS)
            result = await self._context.resources.run(job)
            if result.exit_code:
                raise ValueError(f"{path!r} cannot be removed: {result.stderr.decode(errors='replace').strip()[:200]}")

    async def files(self) -> tuple[Entry, ...]:
        self._check_open()
        return await self._files.files()

    async def unpack(self, archive: AsyncIterator[bytes]) -> None:
        await self._files.unpack(archive)

    async def install(self, packages: Packages) -> Installed:
        image, resources = self._context.image, self._context.resources
        if image.python is None:
            raise InstallFailed(f"the image {image.name!r} has no Python to install packages for")
        mounts = (Mount(self.volume, WORK, writable=True), self._context.tools)
        target = InstallTarget(resources, image.python, mounts, image.environment(prepared=True), self.read, self._execute)
        async with open_backend(target, self._context.folder / f"way-{token_hex(4)}") as (backend, volume):
            # The worker's nearest Python downloads the wheels.
            installed = await install(replace(packages, python=image.version), backend, self._context.store)
        old, self.env, self._own_env = self._own_env, volume, volume
        if old:
            await resources.engine.drop_volume(old)
        return replace(installed, python=image.version)

    async def close(self) -> None:
        """Cancel running commands; remove its volumes."""
        self._open = False
        await self._running.cancel_all()
        engine = self._context.resources.engine
        await engine.drop(self._helper)
        for volume in filter(None, (self.volume, self._own_env)):
            await engine.drop_volume(volume)

    async def _execute(self, job: Job, binds: Sequence[Mount] = ()) -> Completed:
        return await self._running.run(tuple(job.argv), self._context.resources.run(job, binds))

    def _check_open(self) -> None:
        if not self._open:
            raise SandboxLost("the workspace is closed")
