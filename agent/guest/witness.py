"""What a run noticed of code that meddles with what runs its tests, from the rooms that look for it.

Each is `PATH: WHAT`. They say nothing of guilt: the gate holds them against the run of the unchanged code.
"""

from . import agreeing, holdings
from .seal import Seal
from .watch import LIMIT, Watch


class Witness(object):
    """Made before any code of the repository is imported. `tell(mark)` hears at once of what may be seen only once."""

    def __init__(self, root, tell):
        self.root = root
        self._seal = Seal(root)
        self._watch = Watch(root, tell)
        self._passing = set()

    def know_tests(self, paths):
        """The files that hold the tests, relative to the root: theirs is what they do, and reading them is told."""
        self._watch.files.update(paths)

    def look(self):
        """After each test: what is changed now may be as it was at the end."""
        broken = self._seal.broken_now()
        if broken:
            self._passing.update(broken)

    def marks(self):
        told = self._passing.union(
            self._seal.broken(),
            self._watch.marks(),
            agreeing.marks(self.root, self._seal.classes),
            holdings.marks(self.root, self._watch.is_test),
        )
        return sorted(told)[:LIMIT]
