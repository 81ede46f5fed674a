"""The files of one workspace, reached through the engine's archive API by way of a keeper: a container that no repository's
code ever runs in, and that sees the workspace's volume and little else. What runs in one that has to run is the image's own
shell: an image of somebody's who means ill makes of its keeper what it likes, within the bounds of every container.

So nothing of a repository is ever a file on this side, and what a link or a race could lead to is only the keeper's own file
system. Links are refused all the same, as in every sandbox. Knows nothing of commands.
"""

from __future__ import annotations

import asyncio
import io
import tarfile
from collections.abc import AsyncIterator, Callable

import aiohttp
from aiodocker.containers import DockerContainer

from sandbox.base import MIB, Entry, LimitExceeded, SandboxLost
from sandbox.containers.engine import COPY_SECONDS, Engine, Status
from sandbox.containers.tars import Packing, entries, one_file
from sandbox.host import archive
from sandbox.host.tree import parts_of

WORK, TOP = "/work", "repo"  # the volume, and the folder in it that is the workspace
ROOT = f"{WORK}/{TOP}"
HEADERS = MIB  # bytes that a tar of one file may be larger than the file
TRIES = 3


class Files:
    """`disk` is the bound to name when the workspace is full."""

    def __init__(self, engine: Engine, keeper: DockerContainer, disk: int) -> None:
        self._engine, self._keeper, self._disk = engine, keeper, disk

    async def read(self, path: str, limit: int) -> bytes:
        inside, what = await self._look(path)
        if what is None:
            raise FileNotFoundError(path)
        _check_regular(path, what)
        if what.size > limit:
            raise LimitExceeded("output", limit)
        async with self._engine.fetch(self._keeper, inside) as stream:
            tar = bytearray()
            async for chunk in stream.iter_any():
                tar += chunk
                if len(tar) > limit + HEADERS:  # it has grown, or is another one by now
                    raise LimitExceeded("output", limit)
        content = await asyncio.to_thread(one_file, bytes(tar))
        if len(content) > limit:
            raise LimitExceeded("output", limit)
        return content

    async def write(self, path: str, content: bytes, executable: bool | None) -> None:
        _, what = await self._look(path)
        mode = 0o755 if executable else 0o644
        if what is not None:
            _check_regular(path, what)
            mode = what.mode if executable is None else mode
        above = _fitting(path)[:-1]
        there = len(above)  # how many of the folders above it are there
        while there and await self._engine.status(self._keeper, "/".join((ROOT, *above[:there]))) is None:
            there -= 1
        packing = Packing()
        try:
            await asyncio.to_thread(packing.add, "/".join(parts_of(path)[there:]), io.BytesIO(content), len(content), mode)
            await self._put(packing, "/".join((ROOT, *above[:there])))
        finally:
            packing.close()

    async def removable(self, path: str) -> str | None:
        """The full path of a file or link that is there; None for a missing one. Raises `ValueError` for a folder."""
        inside, what = await self._look(path)
        if what is not None and what.folder:
            raise ValueError(f"{path!r} is a folder")
        return None if what is None else inside

    async def files(self) -> tuple[Entry, ...]:
        for left in reversed(range(TRIES)):
            try:
                async with self._engine.fetch(self._keeper, ROOT) as stream:
                    return await asyncio.to_thread(entries, _reader(stream))
            except (
                tarfile.TarError,
                SandboxLost,
                TimeoutError,
            ) as error:  # files may change, and vanish, while they are packed
                if not left:
                    raise SandboxLost(f"the workspace's files cannot be listed: {error}") from error
        raise AssertionError("unreachable")

    async def unpack(self, content: AsyncIterator[bytes]) -> None:
        packing = Packing()
        try:
            await archive.unpack(content, packing)
            await self._put(packing, ROOT)
        finally:
            packing.close()

    async def _put(self, packing: Packing, folder: str) -> None:
        tar = await asyncio.to_thread(packing.finish)
        try:
            await self._engine.put(self._keeper, folder, tar)
        except SandboxLost as error:
            if "no space left" in error.reason or "quota" in error.reason:
                raise LimitExceeded("disk", self._disk) from error
            raise

    async def _look(self, path: str) -> tuple[str, Status | None]:
        """The path inside and what is there, when nothing on the way to it is a link. Raises `ValueError`."""
        names = (TOP, *_fitting(path))
        here = WORK
        for name in names[:-1]:
            here = f"{here}/{name}"
            above = await self._engine.status(self._keeper, here)
            if above is None:
                return f"{WORK}/{'/'.join(names)}", None
            if not above.folder:
                raise ValueError(f"{path!r} leads through something that is no folder")
        inside = f"{here}/{names[-1]}"
        return inside, await self._engine.status(self._keeper, inside)


def _fitting(path: str) -> tuple[str, ...]:
    parts = parts_of(path)
    if any(len(part.encode(errors="surrogateescape")) > 255 for part in parts):
        raise ValueError(f"not a path that a file can have here: {path[:80]!r}…")
    return parts


def _check_regular(path: str, what: Status) -> None:
    if not what.regular:
        raise ValueError(f"{path!r} is not a regular file")


def _reader(stream: aiohttp.StreamReader) -> Callable[[int], bytes]:
    """Reads `stream` from another thread."""
    loop = asyncio.get_running_loop()

    def read(size: int) -> bytes:
        return asyncio.run_coroutine_threadsafe(stream.read(size), loop).result(COPY_SECONDS)

    return read
