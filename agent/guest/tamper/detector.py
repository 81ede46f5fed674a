"""Collects the signs that code of the repository tampers with what runs its tests.

Each mark is `PATH: WHAT`. A mark alone proves nothing: the gate compares marks with those of the unchanged code.
"""

from __future__ import annotations

from . import always_equal, mocking
from .audit import LIMIT, AuditLog
from .snapshot import Snapshot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class TamperDetector:
    """Made before any code of the repository is imported. `report(mark)` is called at once for what may be seen only once."""

    def __init__(self, root: str, report: Callable[[str], None]) -> None:
        self.root = root
        self._snapshot = Snapshot(root)
        self._audit = AuditLog(root, report)
        self._transient: set[str] = set()

    def add_test_files(self, paths: Iterable[str]) -> None:
        """Name the files that hold the tests, relative to the root: what they do is theirs, and reading them is a mark."""
        self._audit.test_files.update(paths)

    def check(self) -> None:
        """After each test: what is changed now may be restored before the end."""
        changes = self._snapshot.runner_changes()
        if changes:
            self._transient.update(changes)

    def marks(self) -> list[str]:
        found = self._transient.union(
            self._snapshot.changes(),
            self._audit.marks(),
            always_equal.marks(self.root, self._snapshot.classes),
            mocking.marks(self.root, self._audit.is_test),
        )
        return sorted(found)[:LIMIT]
