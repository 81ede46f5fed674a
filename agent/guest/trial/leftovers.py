"""What tests leave behind in the repository, which would decide later runs: templates that were compiled, databases, logs."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator

MOST = 20_000  # files and folders; where there are more, nothing is removed, because each look would take too long
KEPT = ("__pycache__", ".git")


class Leftovers:
    """Remembers the files and folders below `root`; `remove` removes those that came later."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.before: set[str] = set()
        for path, is_folder, waiting in _walk(root):
            self.before.add(path)
            if is_folder:
                waiting.append(path)
        self.is_known = len(self.before) < MOST

    def remove(self) -> None:
        """Only while no code under test runs: it may still need the files."""
        for path, is_folder, waiting in _walk(self.root) if self.is_known else ():
            with contextlib.suppress(OSError, RecursionError):
                if path not in self.before:
                    shutil.rmtree(path) if is_folder else os.remove(path)
                elif is_folder:
                    waiting.append(path)


def _walk(root: str) -> Iterator[tuple[str, bool, list[str]]]:
    """At most `MOST` paths, each with whether it is a folder, and the list of the folders that are still to be entered."""
    waiting, seen = [root], 0
    while waiting:
        try:
            entries = list(os.scandir(waiting.pop()))
        except OSError:
            continue
        for entry in entries:
            if entry.name not in KEPT:
                yield entry.path, entry.is_dir(follow_symlinks=False), waiting
                seen += 1
                if seen >= MOST:
                    return
