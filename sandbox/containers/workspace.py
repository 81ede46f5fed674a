"""One workspace of a container sandbox, the base or a candidate: its commands, its files, its own environment.

A command sees the workspace's volume, the sandbox's tools and the environment, each as a mount. Knows nothing of how sandboxes
are opened, or images chosen.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from secrets import token_hex

from aiodocker.containers import DockerContainer

from sandbox.base import MIB, Command, Completed, Entry, Installed, InstallFailed, Packages, SandboxLost
from sandbox.containers.files import ROOT, WORK, Files
from sandbox.containers.images import ASK_SECONDS, Image
from sandbox.containers.place import ENV, ENVIRONMENTS, Room, place_for
from sandbox.containers.resources import House
from sandbox.containers.spec import Job, Mount
from sandbox.host.running_commands import Running
from sandbox.host.tree import parts_of
from sandbox.install.packages import Shop, install


@dataclass(frozen=True, slots=True)
class Hall:
    """What the workspaces of one sandbox have in common. `folder` is the sandbox's own, on this side."""

    house: House
    image: Image
    tools: Mount
    shop: Shop
    folder: Path


class DockerWorkspace:
    """The base, or one candidate. `env` is the volume of the environment that it has, which may be that of its base."""

    root = ROOT

    def __init__(self, hall: Hall, volume: str, keeper: DockerContainer, env: str | None, *, writable: bool) -> None:
        self._hall, self.volume, self._keeper, self._writable = hall, volume, keeper, writable
        self._files = Files(hall.house.engine, keeper, hall.house.limits.disk)
        self._running = Running()
        self._open = True
        self._own_env: str | None = None
        self.env = env

    @property
    def python(self) -> str:
        return f"{ENV}/bin/python" if self.env else self._hall.image.python or "python3"

    async def run(self, command: Command) -> Completed:
        return await self.perform(command, writable=self._writable)

    async def perform(self, command: Command, *, writable: bool) -> Completed:
        """Run `command` as one that may, or may not, change the workspace's files."""
        cwd = "" if command.cwd in ("", ".") else "/" + "/".join(parts_of(command.cwd))
        mounts = [Mount(self.volume, WORK, writable), self._hall.tools]
        mounts += [Mount(self.env, ENVIRONMENTS)] if self.env else []
        told = {**self._hall.image.environment(prepared=self.env is not None), **command.env}
        return await self._execute(
            Job(
                command.argv,
                mounts,
                told,
                ROOT + cwd,
                command.timeout,
                command.stdin,
                command.output_limit,
                hosts=command.hosts,
            )
        )

    async def read(self, path: str, limit: int = 16 * MIB) -> bytes:
        self._check_open()
        return await self._files.read(path, limit)

    async def write(self, path: str, content: bytes, *, executable: bool | None = None) -> None:
        self._check_open()
        await self._files.write(path, content, executable)

    async def remove(self, path: str) -> None:
        self._check_open()
        # The engine's API cannot remove a file. What takes the place of one meanwhile is inside all the same.
        if inside := await self._files.removable(path):
            mounts = (Mount(self.volume, WORK, writable=True),)
            job = Job(("rm", "-f", "--", inside), mounts, self._hall.image.environment(prepared=False), "/", ASK_SECONDS)
            said = await self._hall.house.run(job)
            if said.exit_code:
                raise ValueError(f"{path!r} cannot be removed: {said.stderr.decode(errors='replace').strip()[:200]}")

    async def files(self) -> tuple[Entry, ...]:
        self._check_open()
        return await self._files.files()

    async def unpack(self, archive: AsyncIterator[bytes]) -> None:
        await self._files.unpack(archive)

    async def install(self, packages: Packages) -> Installed:
        image, house = self._hall.image, self._hall.house
        if image.python is None:
            raise InstallFailed(f"the image {image.name!r} has no Python, in which packages could be installed")
        mounts = (Mount(self.volume, WORK, writable=True), self._hall.tools)
        room = Room(house, image.python, mounts, image.environment(prepared=True), self.read, self._execute)
        async with place_for(room, self._hall.folder / f"way-{token_hex(4)}") as (place, volume):
            # The worker's interpreter that is most alike brings the wheels, where it brings any that fit.
            installed = await install(replace(packages, python=image.version), place, self._hall.shop)
        old, self.env, self._own_env = self._own_env, volume, volume
        if old:
            await house.drop_volume(old)
        return replace(installed, python=image.version)

    async def close(self) -> None:
        """End the commands that still run, and give back what is only its own."""
        self._open = False
        await self._running.end()
        await self._hall.house.drop(self._keeper)
        for volume in (self.volume, self._own_env):
            if volume:
                await self._hall.house.drop_volume(volume)

    async def _execute(self, job: Job) -> Completed:
        return await self._running.hold(tuple(job.argv), self._hall.house.run(job))

    def _check_open(self) -> None:
        if not self._open:
            raise SandboxLost("the workspace is closed")
