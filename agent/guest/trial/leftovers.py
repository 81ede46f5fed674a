"""What tests leave behind in the repository, which would decide later runs: templates that were compiled, databases, logs."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Container, Iterator

MOST = 20_000  # files and folders; where there are more, nothing is removed, because each look would take too long
KEPT = ("__pycache__", ".git")


class Leftovers:
    """Remembers the files and folders below `root`; `remove` removes those that came later."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.before = {path for path, _ in _paths(root)}
        self.is_known = len(self.before) < MOST

    def remove(self) -> None:
        """Only while no code under test runs: it may still need the files."""
        for path, is_folder in _paths(self.root, self.before) if self.is_known else ():
            if path not in self.before:
                with contextlib.suppress(OSError, RecursionError):
                    shutil.rmtree(path) if is_folder else os.remove(path)


def _paths(root: str, known: Container[str] | None = None) -> Iterator[tuple[str, bool]]:
    """At most `MOST` paths, each with whether it is a folder. Of the folders, only `known` ones are entered, if it is given."""
    waiting, seen = [root], 0
    while waiting:
        try:
            entries = list(os.scandir(waiting.pop()))
        except OSError:
            continue
        for entry in entries:
            if entry.name in KEPT:
                continue
            is_folder = entry.is_dir(follow_symlinks=False)
            if is_folder and (known is None or entry.path in known):
                waiting.append(entry.path)
            yield entry.path, is_folder
            seen += 1
            if seen >= MOST:
                return
