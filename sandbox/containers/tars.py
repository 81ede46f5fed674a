"""Builds the tars that an engine unpacks, and reads those that it returns without unpacking them.

What goes in has passed `archive` or is ours. What comes out may be hostile and is read as a stream: names, kinds and sizes, and
the content of at most one file. Everything here blocks: call it in a thread.
"""

from __future__ import annotations

import io
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from sandbox.base import Entry, LimitExceeded
from sandbox.containers.spec import USER
from sandbox.host.tree import INSTALLED, MAX_ENTRIES, MODULES, parts_of

SPOOLED = 1 << 20  # bytes kept in memory of what is being packed
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
        """Add a file or folder of ours, recursively, as `name`."""
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
    """The content of a tar's only file. Raises `ValueError` if it holds anything else."""
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
            tar.members = []  # or tarfile would keep every header
    source.check_end()
    marks = f"/{MODULES}/{INSTALLED}"
    installed = tuple(f"{path.removesuffix(INSTALLED)}" for path in found if f"/{path}".endswith(marks))
    seen = (entry for entry in found.values() if not entry.path.startswith(installed))
    return tuple(sorted(seen, key=lambda entry: entry.path))


class _StreamReader:
    """The part of a file that `tarfile` needs. Unlike `tarfile`, it notices a stream that is cut between two members."""

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
            raise tarfile.ReadError("the archive has no end")
