"""The files of the repository, to put them back: what tests leave behind or overwrite would decide later runs."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Collection, Iterator

MOST = 20_000  # files and folders; where there are more, nothing is put back, because each look would take too long
LARGEST, ALL = 1 << 20, 1 << 26  # bytes of a file, and of all files, whose content is kept
LEFT_OUT = ("__pycache__", ".git")


class Snapshot:
    """Remembers what is below `root`. `restore` removes what came later, and puts back files that were changed or removed."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.before = {entry.path: _state(entry) for entry in _entries(root)}
        self.is_known, left = len(self.before) < MOST, ALL
        self.contents: dict[str, bytes] = {}
        for path, state in self.before.items() if self.is_known else ():
            if state is not None and state.st_size <= min(LARGEST, left):
                with contextlib.suppress(OSError), open(path, "rb") as file:
                    self.contents[path] = file.read()
                    left -= state.st_size

    def restore(self) -> None:
        """Only while no code under test runs: it may still need the files."""
        if not self.is_known:
            return
        unchanged = set()
        for entry in _entries(self.root, self.before):
            state = _state(entry)
            before = self.before.get(entry.path)
            if entry.path not in self.before or (state is None) != (before is None):
                _remove(entry.path)
            elif state is not None and before is not None and state.st_ctime_ns == before.st_ctime_ns:
                unchanged.add(entry.path)
        for path, content in self.contents.items():
            state = self.before[path]
            if path not in unchanged and state is not None:
                with contextlib.suppress(OSError):
                    self.before[path] = _put_back(path, content, state)


def _put_back(path: str, content: bytes, state: os.stat_result) -> os.stat_result:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    _remove(path)  # a link in its place is not followed
    with open(path, "xb") as file:
        file.write(content)
    os.chmod(path, state.st_mode & 0o7777)
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    return os.lstat(path)


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


def _state(entry: os.DirEntry[str]) -> os.stat_result | None:
    """Of an ordinary file; None of a folder, a link, or what is gone already."""
    try:
        return entry.stat(follow_symlinks=False) if entry.is_file(follow_symlinks=False) else None
    except OSError:
        return None


def _remove(path: str) -> None:
    with contextlib.suppress(OSError, RecursionError):
        shutil.rmtree(path) if os.path.isdir(path) and not os.path.islink(path) else os.remove(path)
