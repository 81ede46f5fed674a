"""Keeps the data folder to its owner: folders have mode 0700 and files 0600, whatever the process's umask is."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import structlog

_OTHERS = 0o077
_SUFFIXES = ("", "-wal", "-shm", "-journal")
_OURS = frozenset({"redis.lock", "redis.log", "sandboxes"})
_log = structlog.get_logger(__name__)


def make_folder(folder: Path) -> None:
    """Create the folder if needed, and close it and the files in it to other users. Blocks.

    Folders in it keep their modes: nobody else can reach them. Raises `OSError`, also for an open folder that is not only
    Selfheal's: closing `/tmp` or `/srv` would take it from others.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if is_shared(folder):
        why = "others use this folder too; choose an empty one, one below it, or make it private (chmod 0700)"
        raise PermissionError(errno.EPERM, why, str(folder))
    changed = [path for path in open_to_others(folder) if _close(path)]
    if changed:
        _log.warning("the data folder was readable by other users; closed it", folder=str(folder), paths=len(changed))
    if foreign := owned_by_others(folder):
        names = [str(path) for path in foreign[:5]]
        _log.warning("parts of the data folder belong to another user; see `selfheal doctor`", paths=names)


def make_database(path: Path) -> None:
    """Create SQLite's file if needed, and close it to other users. SQLite gives its other files the same mode. Blocks.

    Raises `OSError`.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with suppress(FileExistsError):  # closing an existing one would release the locks that this process has on it
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    for file in of_database(path.resolve()):  # an older version left them open
        _close(file)


def of_database(path: Path) -> tuple[Path, ...]:
    """SQLite's file and the files that SQLite keeps next to it."""
    return tuple(path.with_name(path.name + suffix) for suffix in _SUFFIXES)


def is_shared(folder: Path) -> bool:
    """Whether the folder is open to others and is not only Selfheal's, so that closing it would take it from them. Blocks."""
    state = _state(folder)
    if state is None or not state.st_mode & _OTHERS:
        return False
    names = {path.name for path in _content(folder)} - {"lost+found"}
    is_ours = not names or any(name in _OURS or name.endswith(".db") for name in names)
    return folder == Path("/") or bool(state.st_mode & stat.S_ISVTX) or not is_ours


def open_to_others(folder: Path, more: Iterable[Path] = ()) -> list[Path]:
    """The folder itself, the files directly in it, and those of `more`, that other users may read or write. Blocks."""
    found = [*_content(folder), *more]
    regular = [path for path in found if (state := _state(path)) is not None and stat.S_ISREG(state.st_mode)]
    return [path for path in (folder, *regular) if (state := _state(path)) is not None and state.st_mode & _OTHERS]


def owned_by_others(folder: Path) -> list[Path]:
    """The folder itself and what is directly in it, if it belongs to another user, who may change its mode. Blocks."""
    ours = os.geteuid()
    return [path for path in (folder, *_content(folder)) if (state := _state(path)) is not None and state.st_uid != ours]


def _content(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:  # missing, or another user's
        return []


def _state(path: Path) -> os.stat_result | None:
    with suppress(OSError):  # SQLite's files come and go
        return path.lstat()
    return None


def _close(path: Path) -> bool:
    """Whether the path was changed. What cannot be changed stays; `selfheal doctor` names it.

    Nothing is opened: closing a database again would release the locks that this process has on it.
    """
    state = _state(path)
    if state is None or stat.S_ISLNK(state.st_mode) or not state.st_mode & _OTHERS:
        return False
    try:
        path.chmod(stat.S_IMODE(state.st_mode) & ~_OTHERS)
    except OSError:
        return False
    return True
