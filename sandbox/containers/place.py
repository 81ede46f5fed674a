"""Where the install step works in a container: one workspace, and a volume for the environment that is made in it.

No container ever has a network. Wheels and the installer are put into a volume; where those are not enough, the installer's
container alone is shown the folder with the socket of the worker's proxy, which leads to the package index and nowhere else.
So that way works where the engine sees the worker's files: on the same machine.
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
from sandbox.containers.resources import House
from sandbox.containers.spec import Bind, Job, Mount
from sandbox.containers.tars import Packing
from sandbox.install.placing import INSTALL_OUTPUT, INSTALL_SECONDS
from sandbox.install.python.interpreters import Interpreter

ENVIRONMENTS, ENV = "/env", "/env/python"  # the volume, and the virtual environment in it
SEEN = "/seen"
WATCH_SECONDS = 5.0
MEASURE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Room:
    """The workspace that an environment is made for."""

    house: House
    python: str  # the image's own, as seen inside
    mounts: tuple[Mount, ...]  # its files, writable, and the tools
    environment: Mapping[str, str]
    read: Callable[[str], Awaitable[bytes]]
    execute: Callable[[Job], Awaitable[Completed]]  # as long as the workspace is open


class ContainerPlace:
    """One install step of one workspace (`install.packages.Place`); `way` is a folder that it may make, and share."""

    env = ENV
    sharing = None  # an environment of the image's own Python, which the worker may not have

    def __init__(self, room: Room, way: Path, volumes: tuple[str, str], keeper: DockerContainer) -> None:
        self._room, self._way, self._keeper = room, way, keeper
        self._env_volume, self._seen = volumes
        self._binds: tuple[Bind, ...] = ()

    @property
    def way_out(self) -> Path:
        self._way.mkdir(mode=0o711, exist_ok=True)
        return self._way

    async def use(self, interpreter: Interpreter) -> str:
        """The image's own, whichever the worker has."""
        return self._room.python

    async def read(self, path: str) -> bytes:
        return await self._room.read(path)

    async def see(self, source: Path, inside: str) -> str:
        if source == self._way:  # a socket is of use only where it is
            self._binds = (Bind(str(source), inside),)
            return inside
        name = f"{token_hex(4)}/{source.name}"
        await self._put(SEEN, lambda packing: packing.copy(source, name))
        return f"{SEEN}/{name}"

    async def install_command(self, argv: Sequence[str], env: Mapping[str, str]) -> Completed:
        """The installer alone may write the repository and the dependencies."""
        room = self._room
        mounts = (*room.mounts, Mount(self._env_volume, ENVIRONMENTS, writable=True), Mount(self._seen, SEEN))
        told = {**room.environment, **env}
        job = Job(argv, mounts, told, ROOT, INSTALL_SECONDS, output_limit=INSTALL_OUTPUT, binds=self._binds)
        running = asyncio.ensure_future(room.execute(job))
        try:
            while not (await asyncio.wait((running,), timeout=WATCH_SECONDS))[0]:
                await self._check_disk()
            await self._check_disk()
        finally:
            running.cancel()
            await asyncio.wait((running,))
        return running.result()

    async def begin(self) -> None:
        """Make the folder that the environment will be."""
        await self._put(ENVIRONMENTS, lambda packing: packing.folder(ENV.removeprefix(f"{ENVIRONMENTS}/")))

    async def _put(self, folder: str, fill: Callable[[Packing], None]) -> None:
        packing = Packing()
        try:
            await asyncio.to_thread(fill, packing)
            await self._room.house.engine.put(self._keeper, folder, await asyncio.to_thread(packing.finish))
        finally:
            packing.close()

    async def _check_disk(self) -> None:
        """Raises `LimitExceeded` when repository and environment are together larger than they may be."""
        room = self._room
        seen = (*(Mount(one.volume, one.target) for one in room.mounts), Mount(self._env_volume, ENVIRONMENTS))
        measured = await room.house.run(Job(("du", "-sk", WORK, ENVIRONMENTS), seen, room.environment, "/", MEASURE_SECONDS))
        sizes = [line.split()[0] for line in measured.stdout.decode(errors="replace").splitlines() if line.split()]
        if sum(int(size) for size in sizes if size.isdecimal()) * KIB > room.house.limits.disk:
            raise LimitExceeded("disk", room.house.limits.disk)


@asynccontextmanager
async def place_for(room: Room, way: Path) -> AsyncIterator[tuple[ContainerPlace, str]]:
    """A place and the volume of the environment that is made there: kept after the block, unless that ends badly."""
    house = room.house
    keeper: DockerContainer | None = None
    volumes: list[str] = []
    made = False
    try:
        for _ in range(2):
            volumes.append(await house.volume())
        env, seen = volumes
        keeper = await house.keeper((Mount(env, ENVIRONMENTS, writable=True), Mount(seen, SEEN, writable=True)))
        place = ContainerPlace(room, way, (env, seen), keeper)
        await place.begin()
        yield place, env
        made = True
    finally:
        await asyncio.shield(_clear_away(house, keeper, volumes[1:] if made else volumes))


async def _clear_away(house: House, keeper: DockerContainer | None, volumes: Sequence[str]) -> None:
    if keeper is not None:
        await house.drop(keeper)
    for volume in volumes:
        await house.drop_volume(volume)
