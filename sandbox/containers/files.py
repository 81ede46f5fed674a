"""The files of one workspace, through the engine's archive API and a helper container that runs no repository code.

The helper sees little more than the workspace's volume. A helper that must run executes the image's own shell, so a malicious
image controls its helper, within the bounds of every container. No repository file ever reaches this machine's disk, and a
symlink or race can only lead into the helper's file system. Symlinks are refused anyway, as in every sandbox.
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
from sandbox.containers.tars import TarBuilder, entries, one_file
from sandbox.host import archive
from sandbox.host.tree import parts_of

WORK, TOP = "/work", "repo"  # the volume, and the folder in it that is the workspace
ROOT = f"{WORK}/{TOP}"
HEADERS = MIB  # bytes that a tar of one file may be larger than the file
TRIES = 3


class ContainerFiles:
    """`disk` is the limit that a full workspace reports."""

    def __init__(self, engine: Engine, helper: DockerContainer, disk: int) -> None:
        self._engine, self._helper, self._disk = engine, helper, disk

    async def read(self, path: str, limit: int) -> bytes:
        inside, what = await self._look(path)
        if what is None:
            raise FileNotFoundError(path)
        _check_regular(path, what)
        if what.size > limit:
            raise LimitExceeded("output", limit)
        async with self._engine.fetch(self._helper, inside) as stream:
            tar = bytearray()
            async for chunk in stream.iter_any():
                tar += chunk
                if len(tar) > limit + HEADERS:  # it has grown or been replaced
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
        above = _checked_parts(path)[:-1]
        there = len(above)  # how many parent folders exist
        while there and await self._engine.status(self._helper, "/".join((ROOT, *above[:there]))) is None:
            there -= 1
        with TarBuilder() as tar:
            await asyncio.to_thread(tar.add, "/".join(parts_of(path)[there:]), io.BytesIO(content), len(content), mode)
            await self._put(tar, "/".join((ROOT, *above[:there])))

    async def removable(self, path: str) -> str | None:
        """The full path of a file or link; None if it does not exist. Raises `ValueError` for a folder."""
        inside, what = await self._look(path)
        if what is not None and what.folder:
            raise ValueError(f"{path!r} is a folder")
        return None if what is None else inside

    async def files(self) -> tuple[Entry, ...]:
        for left in reversed(range(TRIES)):
            try:
                async with self._engine.fetch(self._helper, ROOT) as stream:
                    return await asyncio.to_thread(entries, _reader(stream))
            except (tarfile.TarError, SandboxLost, TimeoutError) as error:  # files may change or vanish while they are packed
                if not left:
                    raise SandboxLost(f"the workspace's files cannot be listed: {error}") from error
        raise AssertionError("unreachable")

    async def unpack(self, content: AsyncIterator[bytes]) -> None:
        with TarBuilder() as tar:
            await archive.unpack(content, tar)
            await self._put(tar, ROOT)

    async def _put(self, tar: TarBuilder, folder: str) -> None:
        content = await asyncio.to_thread(tar.finish)
        try:
            await self._engine.put(self._helper, folder, content)
        except SandboxLost as error:
            if "no space left" in error.reason or "quota" in error.reason:
                raise LimitExceeded("disk", self._disk) from error
            raise

    async def _look(self, path: str) -> tuple[str, Status | None]:
        """The path inside and what it is. Raises `ValueError` if a parent is a symlink or not a folder."""
        names = (TOP, *_checked_parts(path))
        here = WORK
        for name in names[:-1]:
            here = f"{here}/{name}"
            above = await self._engine.status(self._helper, here)
            if above is None:
                return f"{WORK}/{'/'.join(names)}", None
            if not above.folder:
                raise ValueError(f"{path!r} passes through something that is not a folder")
        inside = f"{here}/{names[-1]}"
        return inside, await self._engine.status(self._helper, inside)


def _checked_parts(path: str) -> tuple[str, ...]:
    parts = parts_of(path)
    if any(len(part.encode(errors="surrogateescape")) > 255 for part in parts):
        raise ValueError(f"not a valid file path here: {path[:80]!r}…")
    return parts


def _check_regular(path: str, what: Status) -> None:
    if not what.regular:
        raise ValueError(f"{path!r} is not a regular file")


def _reader(stream: aiohttp.StreamReader) -> Callable[[int], bytes]:
    """A function that reads `stream` from another thread."""
    loop = asyncio.get_running_loop()

    def read(size: int) -> bytes:
        return asyncio.run_coroutine_threadsafe(stream.read(size), loop).result(COPY_SECONDS)

    return read
