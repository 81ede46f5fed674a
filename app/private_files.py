"""Keeps the data folder to its owner: folders have mode 0700 and files 0600, whatever the process's umask is."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

import structlog

_OTHERS = 0o077
_log = structlog.get_logger(__name__)


def make_folder(folder: Path) -> None:
    """Create the folder if needed, and close it and the files in it to other users. Blocks. Raises `OSError`.

    Folders in it keep their modes: nobody else can reach them.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    changed = [path for path in open_to_others(folder) if _close(path)]
    if changed:
        _log.warning("the data folder was readable by other users; closed it", folder=str(folder), paths=len(changed))


def make_database(path: Path) -> None:
    """Create SQLite's file if needed, and close it to other users. SQLite gives its other files the same mode. Blocks.

    Raises `OSError`.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with suppress(FileExistsError):  # closing an existing one would release the locks that this process has on it
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    for suffix in ("", "-wal", "-shm", "-journal"):  # an older version left them open
        with suppress(FileNotFoundError):
            _close(path.with_name(path.name + suffix))


def open_to_others(folder: Path) -> list[Path]:
    """The folder itself and the files directly in it that other users may read or write. Blocks."""
    if not folder.is_dir():
        return []
    files = [path for path in sorted(folder.iterdir()) if stat.S_ISREG(path.lstat().st_mode)]
    return [path for path in (folder, *files) if path.lstat().st_mode & _OTHERS]


def _close(path: Path) -> bool:
    """Whether the path was changed. What belongs to another user stays as it is; `selfheal doctor` names it."""
    mode = stat.S_IMODE(path.stat().st_mode)
    if not mode & _OTHERS:
        return False
    try:
        path.chmod(mode & ~_OTHERS)
    except PermissionError:
        _log.warning("other users may read this, and it belongs to another user", path=str(path))
        return False
    return True
