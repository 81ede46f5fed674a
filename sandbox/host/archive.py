"""Unpacks a repository's archive, or refuses it as a whole.

The archive may be hostile. It is read as a stream with limits on its size, compression ratio, entries and headers. A `Target`
creates every file (a `Tree` follows no symlink). Symlinks are created last, so that no file is written through one. `.git` is
left out, because the host must never trust it.
"""

from __future__ import annotations

import asyncio
import gzip
import io
import posixpath
import tarfile
import tempfile
import zlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import IO, Protocol

from sandbox.base import MIB, UnsafeArchive
from sandbox.host.tree import PATH_FAULTS, parts_of

CHUNK = 1 << 18


@dataclass(frozen=True, slots=True)
class ArchiveLimits:
    """Limits of one archive. The ratio applies only to large content, because a small file of zeros may be legitimate."""

    packed: int = 512 * MIB  # bytes
    unpacked: int = 2048 * MIB  # bytes
    entries: int = 200_000
    ratio: int = 200
    ratio_from: int = 64 * MIB  # bytes of content
    header: int = 4 * MIB  # bytes that tarfile may read at once; it reads an extended header as a whole


class Target(Protocol):
    """Receives an archive's entries. Each method raises `ValueError` for a duplicate name or a path behind a symlink."""

    def folder(self, path: str) -> None: ...

    def create(self, path: str, chunks: Iterator[bytes], executable: bool) -> None: ...

    def link(self, path: str, target: str) -> None: ...


async def unpack(archive: AsyncIterator[bytes], tree: Target, limits: ArchiveLimits = ArchiveLimits()) -> int:
    """Unpack a gzipped tar whose single top folder is dropped; returns the number of files.

    Raises `UnsafeArchive` for a fault of the archive, and `OSError` for a fault of this machine (a full disk).
    """
    with tempfile.TemporaryFile() as packed:
        async for chunk in archive:
            if packed.tell() + len(chunk) > limits.packed:
                raise UnsafeArchive(f"the archive is larger than {limits.packed // MIB} MiB")
            await asyncio.to_thread(packed.write, chunk)
        return await asyncio.to_thread(_unpack, packed, tree, limits)


def _unpack(packed: IO[bytes], tree: Target, limits: ArchiveLimits) -> int:
    size = packed.tell()
    packed.seek(0)
    files = entries = 0
    top: str | None = None
    links: dict[str, str] = {}
    try:
        with tarfile.open(fileobj=Decompressor(packed, size, limits), mode="r:") as tar:  # type: ignore[call-overload]
            for member in tar:
                entries += 1
                if entries > limits.entries:
                    raise UnsafeArchive(f"the archive has more than {limits.entries} entries")
                names = _names(member)
                if top is not None and names[0] != top:
                    raise UnsafeArchive("the archive has more than one top folder")
                top, path = names[0], "/".join(names[1:])
                if ".git" in (name.lower() for name in names):
                    continue
                if member.isdir():
                    if path:
                        tree.folder(path)
                elif not path:
                    raise UnsafeArchive(f"{member.name!r} is not inside the top-level folder")
                elif member.issym():
                    links[path] = _inside(path, member.linkname)
                elif member.isreg() and not member.issparse():
                    tree.create(path, _content(tar, member), bool(member.mode & 0o100))
                    files += 1
                else:
                    raise UnsafeArchive(f"{member.name!r} is not a file, folder or symbolic link")
                tar.members = []  # otherwise tarfile would keep every header  # type: ignore[attr-defined]
        for path, target in links.items():
            tree.link(path, target)
    except (tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise UnsafeArchive(f"not a complete gzipped tar archive: {error}") from error
    except ValueError as error:
        raise UnsafeArchive(str(error)) from error
    except OSError as error:
        if error.errno not in PATH_FAULTS:
            raise
        raise UnsafeArchive(f"invalid file name in the archive: {error.strerror}") from error
    if top is None:
        raise UnsafeArchive("the archive is empty")
    return files


def _names(member: tarfile.TarInfo) -> tuple[str, ...]:
    try:
        return parts_of(member.name)
    except ValueError as error:
        raise UnsafeArchive(f"the archive has a path that points outside the repository: {member.name[:200]!r}") from error


def _inside(path: str, target: str) -> str:
    """Return `target`. Raises `UnsafeArchive` if the link at `path` leaves the tree."""
    if leads_outside(path, target):
        raise UnsafeArchive(f"the link {path[:200]!r} points outside the repository: {target[:200]!r}")
    return target


def leads_outside(path: str, target: str) -> bool:
    """Whether the link at `path` leaves the tree, judged by its text; the host follows no link."""
    aim = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    return target.startswith("/") or not target or aim == ".." or aim.startswith("../")


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo) -> Iterator[bytes]:
    source = tar.extractfile(member)
    if source is None:
        raise UnsafeArchive(f"{member.name!r} has no content")
    left = member.size
    while left:
        chunk = source.read(min(CHUNK, left))
        if not chunk:
            raise UnsafeArchive("the archive ends in the middle of a file")
        left -= len(chunk)
        yield chunk


class Decompressor:
    """The decompressed stream, forward only and with limits: the part of the file interface that `tarfile` needs."""

    def __init__(self, packed: IO[bytes], size: int, limits: ArchiveLimits) -> None:
        self._gzip = gzip.GzipFile(fileobj=packed)
        self._size, self._limits = max(size, 1), limits

    def tell(self) -> int:
        return self._gzip.tell()

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence != io.SEEK_SET or offset < self.tell():
            raise UnsafeArchive("the archive cannot be read sequentially")
        while self.tell() < offset:
            if not self.read(min(CHUNK, offset - self.tell())):
                break
        return self.tell()

    def read(self, count: int) -> bytes:
        if count < 0 or count > self._limits.header:
            raise UnsafeArchive(f"a header of the archive is larger than {self._limits.header // MIB} MiB")
        data = self._gzip.read(count)
        done = self.tell()
        if done > self._limits.unpacked:
            raise UnsafeArchive(f"the archive unpacks to more than {self._limits.unpacked // MIB} MiB")
        if done > self._limits.ratio_from and done // self._size > self._limits.ratio:
            raise UnsafeArchive(f"the archive unpacks to more than {self._limits.ratio} times its size")
        return data

    def close(self) -> None:
        self._gzip.close()
