"""What tests leave behind in the repository, which would decide later runs: templates that were compiled, databases, logs."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator

MOST = 20_000  # files and folders; beyond, nothing is removed, because each look would take too long
KEPT = ("__pycache__", ".git")


class Leftovers:
    """Remembers the files and folders below `root`; `remove` removes those that came later."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.before: set[str] | None = set()
        for path in self._paths(root):
            self.before.add(path)
            if len(self.before) > MOST:
                self.before = None
                break

    def remove(self) -> None:
        if self.before is None:
            return
        for path in self._paths(self.root):
            if path in self.before:
                continue
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path, ignore_errors=True)
            else:
                with contextlib.suppress(OSError):
                    os.remove(path)

    def _paths(self, folder: str) -> Iterator[str]:
        """Files and folders; not what is in a folder that came later."""
        try:
            entries = list(os.scandir(folder))
        except OSError:
            return
        for entry in entries:
            if entry.name in KEPT:
                continue
            yield entry.path
            if entry.is_dir(follow_symlinks=False) and (self.before is None or entry.path in self.before):
                yield from self._paths(entry.path)
