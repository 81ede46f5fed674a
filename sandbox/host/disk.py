"""Makes folders that a sandbox's uid can reach; removes and walks trees that hostile code may have made: any depth, any names,
any permissions, any number of files.

Everything here blocks.
"""

from __future__ import annotations

import os
import signal
import stat
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

REMOVE_SECONDS = 120.0
MAX_DEPTH, MAX_ENTRIES = 100, 1_000_000
"""Bounds of a tree that is kept. Far above any real environment."""
# Without root, an owner may not remove what is in a folder without permissions, but may change them. `chmod` does so before it
# enters a folder. Both programs handle trees of any depth.
_PATH = {"PATH": "/usr/bin:/bin"}
_REMOVE = """
rm -rf --one-file-system -- "$1" 2>/dev/null && exit
chmod -R u+rwx -- "$1" 2>/dev/null
exec rm -rf --one-file-system -- "$1" 2>/dev/null
"""


def make_folder(path: Path, mode: int) -> None:
    """Create a folder with exactly this mode, whatever the process's umask is: the sandbox's uid must reach it."""
    path.mkdir(mode)
    with suppress(FileNotFoundError):  # a sweeper has removed it; whoever locks it notices
        path.chmod(mode)


def make_readable(tree: Path) -> None:
    """Let every user read our own files in this tree, whatever the process's umask was when they were written."""
    for path, what in walk(tree):
        os.chmod(path, 0o755 if stat.S_ISDIR(what.st_mode) else 0o644)


def remove(path: Path) -> bool:
    """Remove a tree; returns whether nothing is left. Never raises: what is left is for the next sweep."""
    with suppress(OSError):
        command = ["/bin/sh", "-c", _REMOVE, "sh", str(path)]
        removing = subprocess.Popen(command, env=_PATH, stderr=subprocess.DEVNULL, start_new_session=True)
        try:
            removing.wait(REMOVE_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(removing.pid, signal.SIGKILL)  # with `rm`: nobody removes a folder that is no longer locked
            removing.wait()
    return not os.path.lexists(path)


def walk(tree: Path) -> Iterator[tuple[str, os.stat_result]]:
    """The path and the state of the tree itself and of everything below it, in a fixed order.

    The tree must not change meanwhile. Raises `ValueError` for one that is too deep or too large, or has unreadable folders.
    """
    yield str(tree), tree.lstat()
    count, waiting = 0, [(str(tree), 0)]
    while waiting:
        folder, depth = waiting.pop()
        try:
            with os.scandir(folder) as found:
                entries = sorted(found, key=lambda entry: entry.name)
            states = [(entry.path, entry.stat(follow_symlinks=False)) for entry in entries]
        except OSError as error:  # such as a path that is too long, or a folder without permissions
            raise ValueError(f"a folder cannot be read: {error.strerror}") from error
        count += len(states)
        if depth > MAX_DEPTH or count > MAX_ENTRIES:
            raise ValueError(f"more than {MAX_DEPTH} nested folders, or more than {MAX_ENTRIES:,} files")
        for path, what in states:
            if stat.S_ISDIR(what.st_mode):
                waiting.append((path, depth + 1))
            yield path, what


def size(path: Path, at_most: int) -> int:
    """Bytes on disk, counted until they exceed `at_most`, also while the tree changes; 0 if there is nothing.

    A tree with a folder that cannot be read, such as a very deep one, counts as more than `at_most`.
    """
    total, waiting = 0, [str(path)]
    while waiting and total <= at_most:
        try:
            with os.scandir(waiting.pop()) as found:
                for entry in found:
                    with suppress(FileNotFoundError):
                        total += entry.stat(follow_symlinks=False).st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
        except (FileNotFoundError, NotADirectoryError):  # removed meanwhile, or a file from the start
            continue
        except OSError:
            return at_most + 1
    return total
