"""One workspace of a container sandbox, the base or a candidate: its commands, files, environment and install step."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from secrets import token_hex

from aiodocker.containers import DockerContainer

from sandbox.base import KIB, MIB, Command, Completed, Entry, Installed, InstallFailed, LimitExceeded, Packages
from sandbox.containers.files import ROOT, WORK, ContainerFiles, TarBuilder
from sandbox.containers.images import ASK_SECONDS, ENV, ENVIRONMENTS, SEEN, Image
from sandbox.containers.resources import EngineResources
from sandbox.host.folder_workspace import RunningCommands, run_watched
from sandbox.host.job import Job, Mount, job_of
from sandbox.install.backend import INSTALL_OUTPUT, INSTALL_SECONDS
from sandbox.install.packages import PackageStore, install
from sandbox.install.python.interpreters import Interpreter

WATCH_SECONDS = 1.0
MEASURE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class ContainerContext:
    """What the workspaces of one sandbox share. `folder` is the sandbox's folder on this machine."""

    resources: EngineResources
    image: Image
    tools: Mount
    store: PackageStore
    folder: Path


class DockerWorkspace:
    """The base or a candidate. `env` is the volume of its environment, which may be the base's."""

    root = ROOT

    def __init__(
        self, context: ContainerContext, volume: str, helper: DockerContainer, env: str | None, *, writable: bool
    ) -> None:
        self._context, self.volume, self._helper, self._writable = context, volume, helper, writable
        self._files = ContainerFiles(context.resources.engine, helper, context.resources.limits.disk)
        self._running = RunningCommands()
        self.image = context.image
        self._own_env: str | None = None
        self.env = env

    @property
    def python(self) -> str:
        return f"{ENV}/bin/python" if self.env else self.image.python or "python3"

    async def run(self, command: Command) -> Completed:
        return await self.perform(command, writable=self._writable)

    async def perform(self, command: Command, *, writable: bool) -> Completed:
        """Run `command` with the workspace's files writable or read-only."""
        mounts = (*self.mounts(writable=writable), *((Mount(self.env, ENVIRONMENTS),) if self.env else ()))
        return await self.execute(job_of(command, ROOT, mounts, self.image.environment(prepared=self.env is not None)))

    async def read(self, path: str, limit: int = 16 * MIB) -> bytes:
        self._running.check_open()
        return await self._files.read(path, limit)

    async def write(self, path: str, content: bytes, *, executable: bool | None = None) -> None:
        self._running.check_open()
        await self._files.write(path, content, executable)

    async def remove(self, path: str) -> None:
        self._running.check_open()
        # The engine's API cannot remove files. If the file is replaced meanwhile, the replacement is inside the container too.
        if inside := await self._files.removable(path):
            mounts = (Mount(self.volume, WORK, writable=True),)
            job = Job(("rm", "-f", "--", inside), mounts, self.image.environment(prepared=False), "/", ASK_SECONDS)
            result = await self._context.resources.run(job)
            if result.exit_code:
                raise ValueError(f"{path!r} cannot be removed: {result.stderr.decode(errors='replace').strip()[:200]}")

    async def files(self) -> tuple[Entry, ...]:
        self._running.check_open()
        return await self._files.files()

    async def unpack(self, archive: AsyncIterator[bytes]) -> None:
        await self._files.unpack(archive)

    async def install(self, packages: Packages) -> Installed:
        if self.image.python is None:
            raise InstallFailed(f"the image {self.image.name!r} has no Python to install packages for")
        async with _open_backend(self, self._context) as (backend, volume):
            # The worker's Python with the nearest version downloads the wheels.
            installed = await install(replace(packages, python=self.image.version), backend, self._context.store)
        old, self.env, self._own_env = self._own_env, volume, volume
        if old:
            await self._context.resources.engine.drop_volume(old)
        return replace(installed, python=self.image.version)

    async def close(self) -> None:
        """Cancel running commands; remove the workspace's volumes."""
        await self._running.cancel_all()
        engine = self._context.resources.engine
        await engine.drop(self._helper)
        for volume in filter(None, (self.volume, self._own_env)):
            await engine.drop_volume(volume)

    def mounts(self, *, writable: bool) -> tuple[Mount, ...]:
        """The mounts of its files and of the tools."""
        return Mount(self.volume, WORK, writable), self._context.tools

    async def execute(self, job: Job, binds: Sequence[Mount] = ()) -> Completed:
        """Run `job`; it is cancelled when the workspace closes."""
        return await self._running.run(tuple(job.argv), self._context.resources.run(job, binds))


class ContainerInstallBackend:
    """One install step of one workspace (`install.backend.InstallBackend`).

    No container ever has a network. Wheels and the installer are copied into a volume. If those are not enough, only the
    installer's container gets the folder with the socket of the worker's proxy, which reaches the package index and nothing
    else. This works only if the engine sees the worker's files, that is, if it runs on the same machine.
    """

    env = ENV
    shared_environments = None  # environments belong to the image's Python, which the worker may lack

    def __init__(
        self, workspace: DockerWorkspace, context: ContainerContext, volumes: tuple[str, str], helper: DockerContainer
    ) -> None:
        self._workspace, self._resources, self._helper = workspace, context.resources, helper
        self._proxy_folder = context.folder / f"way-{token_hex(4)}"
        self._env_volume, self._seen = volumes
        self._binds: tuple[Mount, ...] = ()

    @property
    def disk(self) -> int:
        return self._resources.limits.disk

    @property
    def proxy_folder(self) -> Path:
        """The folder of the proxy's socket, created when needed."""
        self._proxy_folder.mkdir(exist_ok=True)
        self._proxy_folder.chmod(0o711)  # whatever the umask is: the container has a user of its own
        return self._proxy_folder

    async def use(self, interpreter: Interpreter) -> str:
        """Always the image's own Python."""
        return self._workspace.image.python or "python3"

    async def read(self, path: str) -> bytes:
        return await self._workspace.read(path)

    async def show(self, source: Path, inside: str) -> str:
        if source == self._proxy_folder:  # a socket cannot be copied
            self._binds = (Mount(str(source), inside),)
            return inside
        name = f"{token_hex(4)}/{source.name}"
        await self._put(SEEN, lambda tar: tar.copy(source, name))
        return f"{SEEN}/{name}"

    keep = None

    async def run_installer(self, argv: Sequence[str], env: Mapping[str, str]) -> Completed:
        """Run the installer: only its commands may write to the repository and the environment."""
        workspace = self._workspace
        mounts = (
            *workspace.mounts(writable=True),
            Mount(self._env_volume, ENVIRONMENTS, writable=True),
            Mount(self._seen, SEEN),
        )
        environment = workspace.image.environment(prepared=True) | dict(env)
        job = Job(argv, mounts, environment, ROOT, INSTALL_SECONDS, output_limit=INSTALL_OUTPUT)
        return await run_watched(workspace.execute(job, self._binds), self._check_disk, WATCH_SECONDS)

    async def begin(self) -> None:
        """Create the environment's folder."""
        await self._put(ENVIRONMENTS, lambda tar: tar.folder(ENV.removeprefix(f"{ENVIRONMENTS}/")))

    async def _put(self, folder: str, fill: Callable[[TarBuilder], None]) -> None:
        with TarBuilder() as tar:
            await asyncio.to_thread(fill, tar)
            await self._resources.engine.put(self._helper, folder, await asyncio.to_thread(tar.finish))

    async def _check_disk(self) -> None:
        """Raises `LimitExceeded` if repository and environment together exceed the disk limit."""
        seen = (*self._workspace.mounts(writable=False), Mount(self._env_volume, ENVIRONMENTS))
        environment = self._workspace.image.environment(prepared=True)
        measured = await self._resources.run(Job(("du", "-sk", WORK, ENVIRONMENTS), seen, environment, "/", MEASURE_SECONDS))
        # Nobody can tell what a folder without permissions contains.
        is_hidden = b"ermission denied" in measured.stderr
        sizes = [line.split()[0] for line in measured.stdout.decode(errors="replace").splitlines() if line.split()]
        if is_hidden or sum(int(size) for size in sizes if size.isdecimal()) * KIB > self._resources.limits.disk:
            raise LimitExceeded("disk", self._resources.limits.disk)


@asynccontextmanager
async def _open_backend(
    workspace: DockerWorkspace, context: ContainerContext
) -> AsyncIterator[tuple[ContainerInstallBackend, str]]:
    """A backend and the volume of its environment. The volume is removed if the block fails, and kept otherwise."""
    resources = context.resources
    helper: DockerContainer | None = None
    volumes: list[str] = []
    made = False
    try:
        for _ in range(2):
            volumes.append(await resources.volume())
        env, seen = volumes
        helper = await resources.helper((Mount(env, ENVIRONMENTS, writable=True), Mount(seen, SEEN, writable=True)))
        backend = ContainerInstallBackend(workspace, context, (env, seen), helper)
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
