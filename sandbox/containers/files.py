"""Accesses one workspace's files through the engine's archive API and a helper container that runs no repository code.

The helper sees little more than the workspace's volume. A helper that must run uses the image's own shell, so a malicious image
controls its helper, but within the limits of every container. No repository file is ever unpacked on this machine's disk, and a
symlink or race can only lead into the helper's file system. Symlinks are refused anyway, as in every sandbox.

A tar that goes in was checked by `archive` or made by Selfheal. A tar that comes out may be hostile: it is read as a stream,
for names, kinds, sizes and the content of at most one file, and is never unpacked.
"""

from __future__ import annotations

import asyncio
import io
import tarfile
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import IO

import aiohttp
from aiodocker.containers import DockerContainer

from sandbox.base import MIB, Entry, LimitExceeded, SandboxLost
from sandbox.containers.command import USER
from sandbox.containers.engine import COPY_SECONDS, Engine, Status
from sandbox.host import archive
from sandbox.host.tree import INSTALLED, MAX_ENTRIES, MODULES, parts_of

SPOOLED = 1 << 20  # bytes of a file being packed that are kept in memory
BLOCK = 1 << 16
END = bytes(2 * tarfile.BLOCKSIZE)


class TarBuilder:
    """Builds a tar (`archive.Target`) whose entries belong to the user that commands run as; refuses duplicate names."""

    def __init__(self) -> None:
        self.file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - `__exit__` closes it
        self._tar = tarfile.open(fileobj=self.file, mode="w", format=tarfile.PAX_FORMAT)  # noqa: SIM115
        self._folders: set[str] = set()
        self._others: set[str] = set()
        self._now = int(time.time())

    def folder(self, path: str) -> None:
        self._above("/".join((*parts_of(path), "")))

    def create(self, path: str, chunks: Iterator[bytes], executable: bool) -> None:
        with tempfile.SpooledTemporaryFile(SPOOLED) as content:
            for chunk in chunks:
                content.write(chunk)
            size = content.tell()
            content.seek(0)
            self.add(path, content, size, 0o755 if executable else 0o644)

    def add(self, path: str, content: IO[bytes], size: int, mode: int) -> None:
        header = self._header(path, mode)
        header.size = size
        self._tar.addfile(header, content)

    def link(self, path: str, target: str) -> None:
        header = self._header(path, 0o777)
        header.type, header.linkname = tarfile.SYMTYPE, target
        self._tar.addfile(header)

    def copy(self, source: Path, name: str) -> None:
        """Add the worker's file or folder `source`, recursively, as `name`."""
        for path in sorted(source.rglob("*")) if source.is_dir() else (source,):
            if path.is_file():
                what = path.stat()
                with path.open("rb") as content:
                    inside = name if path == source else f"{name}/{path.relative_to(source)}"
                    self.add(inside, content, what.st_size, 0o755 if what.st_mode & 0o100 else 0o644)
        if source.is_dir():
            self.folder(name)

    def finish(self) -> IO[bytes]:
        self._tar.close()
        self.file.seek(0)
        return self.file

    def __enter__(self) -> TarBuilder:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def _header(self, path: str, mode: int) -> tarfile.TarInfo:
        path = "/".join(parts_of(path))
        if path in self._others or path in self._folders:
            raise ValueError(f"{path!r} appears twice")
        self._above(path)
        self._others.add(path)
        return self._owned(path, mode)

    def _above(self, path: str) -> None:
        names = path.split("/")[:-1]
        for depth in range(1, len(names) + 1):
            folder = "/".join(names[:depth])
            if folder in self._others:
                raise ValueError(f"{folder!r} is not a folder")
            if folder not in self._folders:
                header = self._owned(folder, 0o755)
                header.type = tarfile.DIRTYPE
                self._tar.addfile(header)
                self._folders.add(folder)

    def _owned(self, path: str, mode: int) -> tarfile.TarInfo:
        if any(len(name.encode(errors="surrogateescape")) > 255 for name in path.split("/")):
            raise ValueError(f"a file name is too long: {path[:80]!r}…")
        header = tarfile.TarInfo(path)
        header.mode, header.mtime = mode, self._now
        header.uid = header.gid = USER
        return header


def one_file(tar: bytes) -> bytes:
    """The content of a tar's only file. Raises `ValueError` if the tar contains anything else."""
    try:
        with tarfile.open(fileobj=io.BytesIO(tar), mode="r:") as opened:
            member = opened.next()
            content = opened.extractfile(member) if member is not None and member.isreg() else None
            if content is None:
                raise ValueError("not a regular file")
            return content.read()
    except tarfile.TarError as error:
        raise ValueError(f"not a readable file: {error}") from error


def entries(read: Callable[[int], bytes]) -> tuple[Entry, ...]:
    """The tar's entries below its single top folder, sorted, without `.git` and installed dependencies.

    Raises `LimitExceeded`, and `tarfile.TarError` for a truncated stream.
    """
    found: dict[str, Entry] = {}
    source = _StreamReader(read)
    with tarfile.open(fileobj=source, mode="r|", bufsize=BLOCK) as tar:  # type: ignore[call-overload]
        for member in tar:
            _, _, path = member.name.partition("/")
            if path and ".git" not in path.split("/"):
                if member.issym():
                    found[path] = Entry(path, len(member.linkname.encode(errors="surrogateescape")), link=True)
                elif member.isreg():
                    found[path] = Entry(path, member.size, executable=bool(member.mode & 0o100))
                elif member.islnk():  # a hard link to an earlier file
                    first = found.get(member.linkname.partition("/")[2])
                    found[path] = Entry(path, first.size if first else 0, executable=bool(member.mode & 0o100))
            if len(found) > MAX_ENTRIES:
                raise LimitExceeded("disk", MAX_ENTRIES)
            tar.members = []  # otherwise tarfile would keep every header
    source.check_end()
    marks = f"/{MODULES}/{INSTALLED}"
    installed = tuple(f"{path.removesuffix(INSTALLED)}" for path in found if f"/{path}".endswith(marks))
    seen = (entry for entry in found.values() if not entry.path.startswith(installed))
    return tuple(sorted(seen, key=lambda entry: entry.path))


class _StreamReader:
    """The part of the file interface that `tarfile` needs. Unlike `tarfile`, it detects a stream cut between two members."""

    def __init__(self, source: Callable[[int], bytes]) -> None:
        self._source, self._last = source, b""

    def read(self, size: int) -> bytes:
        chunk = self._source(size)
        self._last = (self._last + chunk)[-len(END) :]
        return chunk

    def check_end(self) -> None:
        while self.read(BLOCK):
            pass
        if self._last != END:
            raise tarfile.ReadError("the archive is truncated")


WORK, TOP = "/work", "repo"  # the volume, and the folder in it that is the workspace
ROOT = f"{WORK}/{TOP}"
HEADERS = MIB  # bytes by which a tar of one file may exceed the file
TRIES = 3


class ContainerFiles:
    """A workspace's files. `disk` is the limit that is reported if the workspace is full."""

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
                if len(tar) > limit + HEADERS:  # the file has grown or been replaced
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
        """The path inside the container, and its status. Raises `ValueError` if a parent is a symlink or not a folder."""
        names = (TOP, *_checked_parts(path))
        here = WORK
        for name in names[:-1]:
            here = f"{here}/{name}"
            above = await self._engine.status(self._helper, here)
            if above is None:
                return f"{WORK}/{'/'.join(names)}", None
            if not above.folder:
                raise ValueError(f"a parent of {path!r} is not a folder")
        inside = f"{here}/{names[-1]}"
        return inside, await self._engine.status(self._helper, inside)


def _checked_parts(path: str) -> tuple[str, ...]:
    parts = parts_of(path)
    if any(len(part.encode(errors="surrogateescape")) > 255 for part in parts):
        raise ValueError(f"invalid file path: {path[:80]!r}…")
    return parts


def _check_regular(path: str, what: Status) -> None:
    if not what.regular:
        raise ValueError(f"{path!r} is not a regular file")


def _reader(stream: aiohttp.StreamReader) -> Callable[[int], bytes]:
    """Return a function that reads `stream` from another thread."""
    loop = asyncio.get_running_loop()

    def read(size: int) -> bytes:
        return asyncio.run_coroutine_threadsafe(stream.read(size), loop).result(COPY_SECONDS)

    return read
