"""Reads and writes single files, from the host, in a tree that hostile code owns.

The files may change at any time. Every path is resolved one name at a time from a folder descriptor, never through a symlink,
and only a regular file with one hard link is read. Paths resolve as with `openat2(RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS)`,
which Python does not offer. Everything here blocks: call it in a thread.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from secrets import token_hex

from sandbox.base import Entry, LimitExceeded

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
MAX_ENTRIES = 500_000
PATH_FAULTS = frozenset(
    (errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.ENXIO, errno.ENAMETOOLONG, errno.EILSEQ, errno.EINVAL, errno.EACCES)
)
"""Errors that a name or a hostile tree can cause; any other `OSError` is a fault of this machine."""
MODULES, INSTALLED = "node_modules", ".selfheal-installed"
"""A file that marks each `node_modules` that an install step created; an unmarked one belongs to the repository."""
MAX_DEPTH = 200  # far above any real repository, far below the descriptor limit


def parts_of(path: str) -> tuple[str, ...]:
    """The names in a relative POSIX path. Raises `ValueError` if it is absolute, empty or contains `..`."""
    parts = tuple(part for part in path.split("/") if part not in ("", "."))
    if path.startswith("/") or not parts or ".." in parts or "\0" in path:
        raise ValueError(f"not a relative path inside the workspace: {path!r}")
    return parts


def check_tool_name(name: str) -> None:
    """Check a name for `Sandbox.provide`. Raises `ValueError` for a path."""
    if parts_of(name) != (name,):
        raise ValueError(f"a tool needs a plain name, not {name!r}")


class Tree:
    """One folder, accessed through its descriptor. Written files belong to `owner` (uid and gid) if given."""

    def __init__(self, root: int, owner: int | None = None) -> None:
        self._root, self._owner = root, owner

    def read(self, path: str, limit: int) -> bytes:
        """A file's content. Raises `FileNotFoundError`, `ValueError` (link, folder, …), `LimitExceeded` above `limit` bytes."""
        *folders, name = parts_of(path)
        with self._folder(folders, path) as folder:
            # O_NONBLOCK: opening a pipe without a writer must not block.
            descriptor = _open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC, folder, path)
        try:
            _check_regular(os.fstat(descriptor), path)
            content = _read_at_most(descriptor, limit + 1)
        finally:
            os.close(descriptor)
        if len(content) > limit:
            raise LimitExceeded("output", limit)
        return content

    def write(self, path: str, content: bytes, executable: bool | None = None) -> None:
        """Write a new file and rename it, so that no hostile file is ever opened for writing."""
        *folders, name = parts_of(path)
        with self._folder(folders, path, create=True) as folder:
            mode = 0o755 if executable else 0o644
            with suppress(FileNotFoundError):
                old = os.stat(name, dir_fd=folder, follow_symlinks=False)
                _check_regular(old, path)
                if executable is None:
                    mode = stat.S_IMODE(old.st_mode) & 0o777
            fresh = f".{token_hex(8)}"
            self._create(fresh, content, mode, folder)
            try:
                os.replace(fresh, name, src_dir_fd=folder, dst_dir_fd=folder)
            except OSError as error:
                os.unlink(fresh, dir_fd=folder)
                raise ValueError(f"{path!r} cannot be written: {error.strerror}") from error

    def create(self, path: str, chunks: Iterator[bytes], executable: bool) -> None:
        """Write a new file. Raises `ValueError` if the name exists or its folder is a symlink."""
        *folders, name = parts_of(path)
        with self._folder(folders, path, create=True) as folder:
            try:
                self._create(name, chunks, 0o755 if executable else 0o644, folder)
            except FileExistsError as error:
                raise ValueError(f"{path!r} appears twice") from error

    def link(self, path: str, target: str) -> None:
        """Create a symlink, which the host never follows. Raises `ValueError` if the name exists."""
        *folders, name = parts_of(path)
        with self._folder(folders, path, create=True) as folder:
            try:
                os.symlink(target, name, dir_fd=folder)
            except FileExistsError as error:
                raise ValueError(f"{path!r} appears twice") from error
            if self._owner is not None:
                os.chown(name, self._owner, self._owner, dir_fd=folder, follow_symlinks=False)

    def folder(self, path: str) -> None:
        """Create a folder and its parents."""
        with self._folder(parts_of(path), path, create=True):
            pass

    def remove(self, path: str) -> None:
        """Remove one file or link; it is no error if it is missing. Raises `ValueError` for a folder."""
        *folders, name = parts_of(path)
        try:
            with self._folder(folders, path) as folder:
                os.unlink(name, dir_fd=folder)
        except FileNotFoundError:
            return
        except (IsADirectoryError, PermissionError) as error:
            raise ValueError(f"{path!r} is a folder") from error

    def files(self) -> tuple[Entry, ...]:
        """Regular files and symlinks, sorted by path, without `.git` and installed dependencies."""
        entries: list[Entry] = []
        for entry in self._walk(self._root, "", 0):
            entries.append(entry)
            if len(entries) > MAX_ENTRIES:
                raise LimitExceeded("disk", MAX_ENTRIES)
        return tuple(sorted(entries, key=lambda entry: entry.path))

    def _walk(self, folder: int, prefix: str, depth: int) -> Iterator[Entry]:
        if depth > MAX_DEPTH:
            raise LimitExceeded("disk", MAX_DEPTH)
        with os.scandir(folder) as found:
            for item in found:
                path = prefix + item.name
                try:
                    what = item.stat(follow_symlinks=False)
                    if stat.S_ISDIR(what.st_mode):
                        if item.name == ".git":
                            continue
                        below = os.open(item.name, FOLDER, dir_fd=folder)
                        try:
                            if not (item.name == MODULES and _has(below, INSTALLED)):
                                yield from self._walk(below, f"{path}/", depth + 1)
                        finally:
                            os.close(below)
                    elif stat.S_ISREG(what.st_mode) or stat.S_ISLNK(what.st_mode):
                        link = stat.S_ISLNK(what.st_mode)
                        yield Entry(path, what.st_size, executable=not link and bool(what.st_mode & 0o100), link=link)
                except (FileNotFoundError, NotADirectoryError, PermissionError):
                    continue  # changed meanwhile, or unreadable on purpose

    def _create(self, name: str, content: bytes | Iterator[bytes], mode: int, folder: int) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(name, flags, 0o600, dir_fd=folder), "wb", buffering=0) as file:
            for chunk in (content,) if isinstance(content, bytes) else content:
                view = memoryview(chunk)
                while view:
                    view = view[file.write(view) :]
            os.fchmod(file.fileno(), mode)
            if self._owner is not None:
                os.fchown(file.fileno(), self._owner, self._owner)

    @contextmanager
    def _folder(self, names: tuple[str, ...] | list[str], path: str, *, create: bool = False) -> Iterator[int]:
        """The descriptor of the folder at `names`, reached without following symlinks."""
        if len(names) > MAX_DEPTH:
            raise ValueError(f"too many nested folders in {path[:80]!r}")
        here = os.dup(self._root)
        try:
            for name in names:
                if create:
                    self._make(name, here)
                below = _open(name, FOLDER, here, path)
                os.close(here)
                here = below
            yield here
        finally:
            os.close(here)

    def _make(self, name: str, folder: int) -> None:
        with suppress(FileExistsError):
            os.mkdir(name, 0o755, dir_fd=folder)
            if self._owner is not None:
                os.chown(name, self._owner, self._owner, dir_fd=folder, follow_symlinks=False)


def _open(name: str, flags: int, folder: int, path: str) -> int:
    try:
        return os.open(name, flags, dir_fd=folder)
    except FileNotFoundError:
        raise FileNotFoundError(path) from None
    except OSError as error:  # ELOOP: a link; ENOTDIR: a file where a folder should be; ENXIO: a socket
        if error.errno not in PATH_FAULTS:
            raise
        raise ValueError(f"{path!r} cannot be opened as a regular file: {error.strerror}") from error


def _has(folder: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _check_regular(what: os.stat_result, path: str) -> None:
    if not stat.S_ISREG(what.st_mode):
        raise ValueError(f"{path!r} is not a regular file")
    if what.st_nlink != 1:
        raise ValueError(f"{path!r} has more than one hard link")


def _read_at_most(descriptor: int, count: int) -> bytes:
    chunks: list[bytes] = []
    while count > 0 and (chunk := os.read(descriptor, min(count, 1 << 20))):
        chunks.append(chunk)
        count -= len(chunk)
    return b"".join(chunks)
