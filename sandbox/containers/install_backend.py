"""Runs the install step in containers: one workspace, and a volume for the environment that is created in it.

No container ever has a network. Wheels and the installer are copied into a volume. Where those are not enough, the installer's
container alone sees the folder with the socket of the worker's proxy, which reaches the package index and nothing else. This
needs an engine that sees the worker's files, that is, one on the same machine.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex

from aiodocker.containers import DockerContainer

from sandbox.base import KIB, Completed, LimitExceeded
from sandbox.containers.files import ROOT, WORK
from sandbox.containers.resources import EngineResources
from sandbox.containers.tars import TarBuilder
from sandbox.host.job import Job, Mount
from sandbox.host.running_commands import run_watched
from sandbox.install.backend import INSTALL_OUTPUT, INSTALL_SECONDS
from sandbox.install.python.interpreters import Interpreter

ENVIRONMENTS, ENV = "/env", "/env/python"  # the volume, and the virtual environment in it
SEEN = "/seen"
WATCH_SECONDS = 5.0
MEASURE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class InstallTarget:
    """The workspace that an environment is created for."""

    resources: EngineResources
    python: str  # the image's own, as seen inside
    mounts: tuple[Mount, ...]  # its files, writable, and the tools
    environment: Mapping[str, str]
    read: Callable[[str], Awaitable[bytes]]
    execute: Callable[[Job, Sequence[Mount]], Awaitable[Completed]]  # cancelled when the workspace closes


class ContainerInstallBackend:
    """One install step of one workspace (`install.backend.InstallBackend`); `proxy_folder` is created when needed."""

    env = ENV
    shared_environments = None  # environments belong to the image's Python, which the worker may lack

    def __init__(self, target: InstallTarget, proxy_folder: Path, volumes: tuple[str, str], helper: DockerContainer) -> None:
        self._target, self._proxy_folder, self._helper = target, proxy_folder, helper
        self._env_volume, self._seen = volumes
        self._binds: tuple[Mount, ...] = ()

    @property
    def proxy_folder(self) -> Path:
        self._proxy_folder.mkdir(mode=0o711, exist_ok=True)
        return self._proxy_folder

    async def use(self, interpreter: Interpreter) -> str:
        """Always the image's own Python."""
        return self._target.python

    async def read(self, path: str) -> bytes:
        return await self._target.read(path)

    async def show(self, source: Path, inside: str) -> str:
        if source == self._proxy_folder:  # a socket cannot be copied
            self._binds = (Mount(str(source), inside),)
            return inside
        name = f"{token_hex(4)}/{source.name}"
        await self._put(SEEN, lambda tar: tar.copy(source, name))
        return f"{SEEN}/{name}"

    async def run_installer(self, argv: Sequence[str], env: Mapping[str, str]) -> Completed:
        """Only the installer may write the repository and the environment."""
        target = self._target
        mounts = (*target.mounts, Mount(self._env_volume, ENVIRONMENTS, writable=True), Mount(self._seen, SEEN))
        environment = {**target.environment, **env}
        job = Job(argv, mounts, environment, ROOT, INSTALL_SECONDS, output_limit=INSTALL_OUTPUT)
        return await run_watched(target.execute(job, self._binds), self._check_disk, WATCH_SECONDS)

    async def begin(self) -> None:
        """Create the environment's folder."""
        await self._put(ENVIRONMENTS, lambda tar: tar.folder(ENV.removeprefix(f"{ENVIRONMENTS}/")))

    async def _put(self, folder: str, fill: Callable[[TarBuilder], None]) -> None:
        with TarBuilder() as tar:
            await asyncio.to_thread(fill, tar)
            await self._target.resources.engine.put(self._helper, folder, await asyncio.to_thread(tar.finish))

    async def _check_disk(self) -> None:
        """Raises `LimitExceeded` if repository and environment together exceed the disk limit."""
        target = self._target
        seen = (*(Mount(one.source, one.target) for one in target.mounts), Mount(self._env_volume, ENVIRONMENTS))
        measured = await target.resources.run(
            Job(("du", "-sk", WORK, ENVIRONMENTS), seen, target.environment, "/", MEASURE_SECONDS)
        )
        sizes = [line.split()[0] for line in measured.stdout.decode(errors="replace").splitlines() if line.split()]
        if sum(int(size) for size in sizes if size.isdecimal()) * KIB > target.resources.limits.disk:
            raise LimitExceeded("disk", target.resources.limits.disk)


@asynccontextmanager
async def open_backend(target: InstallTarget, proxy_folder: Path) -> AsyncIterator[tuple[ContainerInstallBackend, str]]:
    """A backend and the volume of its environment. The volume is removed if the block fails, otherwise kept."""
    resources = target.resources
    helper: DockerContainer | None = None
    volumes: list[str] = []
    made = False
    try:
        for _ in range(2):
            volumes.append(await resources.volume())
        env, seen = volumes
        helper = await resources.helper((Mount(env, ENVIRONMENTS, writable=True), Mount(seen, SEEN, writable=True)))
        backend = ContainerInstallBackend(target, proxy_folder, (env, seen), helper)
        await backend.begin()
        yield backend, env
        made = True
    finally:
        await asyncio.shield(_clear_away(resources, helper, volumes[1:] if made else volumes))


async def _clear_away(resources: EngineResources, helper: DockerContainer | None, volumes: Sequence[str]) -> None:
    if helper is not None:
        await resources.engine.drop(helper)
    for volume in volumes:
        await resources.engine.drop_volume(volume)
