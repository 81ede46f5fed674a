"""The files of the repository, to put them back: what tests leave behind or overwrite would decide later runs."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Collection, Iterator
from typing import NamedTuple

MOST = 20_000  # files and folders; where there are more, nothing is put back, because each look would take too long
LARGEST, ALL = 1 << 20, 1 << 26  # bytes of a file, and of all files, whose content is kept
LEFT_OUT = ("__pycache__", ".git")


class Snapshot:
    """Remembers what is below `root`. `restore` removes what came later or became something else, and puts back files and links
    that were changed or removed."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.before = {entry.path: _state(entry.path) for entry in _entries(root)}
        self.is_known, left = len(self.before) < MOST, ALL
        self.contents: dict[str, bytes] = {}
        for path, state in self.before.items() if self.is_known else ():
            if state.kind == stat.S_IFREG and state.size <= min(LARGEST, left):
                with contextlib.suppress(OSError), open(path, "rb") as file:
                    self.contents[path] = file.read()
                    left -= state.size

    def restore(self) -> None:
        """Only while no code under test runs: it may still need the files."""
        if not self.is_known:
            return
        unchanged = set()
        for entry in _entries(self.root, self.before):
            before, now = self.before.get(entry.path), _state(entry.path)
            if before is None or (now.kind, now.target) != (before.kind, before.target):
                _remove(entry.path)
            elif now == before:
                unchanged.add(entry.path)
        for path, before in self.before.items():
            if path not in unchanged and (path in self.contents or before.target):
                with contextlib.suppress(OSError):
                    self.before[path] = _put_back(path, self.contents.get(path), before)


class _State(NamedTuple):
    """Of a folder, only the kind counts."""

    kind: int  # as `stat.S_IFREG`; 0 if there is nothing
    mode: int = 0
    size: int = 0
    written: int = 0  # nanoseconds
    changed: int = 0
    target: str = ""  # of a link


def _state(path: str) -> _State:
    try:
        found = os.lstat(path)
        kind = stat.S_IFMT(found.st_mode)
        if kind == stat.S_IFREG:
            return _State(kind, stat.S_IMODE(found.st_mode), found.st_size, found.st_mtime_ns, found.st_ctime_ns)
        return _State(kind, target=os.readlink(path) if kind == stat.S_IFLNK else "")
    except OSError:
        return _State(0)


def _put_back(path: str, content: bytes | None, state: _State) -> _State:
    """Raises OSError."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    _remove(path)  # a link in its place is not followed
    if content is None:
        os.symlink(state.target, path)
    else:
        with open(path, "xb") as file:
            file.write(content)
        os.chmod(path, state.mode)
        os.utime(path, ns=(state.written, state.written))
    return _state(path)


def _entries(root: str, known: Collection[str] | None = None) -> Iterator[os.DirEntry[str]]:
    """What is below `root`, at most `MOST`. Of the folders, only `known` ones are entered, if that is given."""
    waiting, seen = [root], 0
    while waiting:
        try:
            entries = list(os.scandir(waiting.pop()))
        except OSError:
            continue
        for entry in entries:
            if entry.name in LEFT_OUT:
                continue
            if entry.is_dir(follow_symlinks=False) and (known is None or entry.path in known):
                waiting.append(entry.path)
            yield entry
            seen += 1
            if seen >= MOST:
                return


def _remove(path: str) -> None:
    with contextlib.suppress(OSError, RecursionError):
        shutil.rmtree(path) if os.path.isdir(path) and not os.path.islink(path) else os.remove(path)
