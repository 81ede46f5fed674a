"""Counts things by name."""

from collections import Counter


class Tally:
    def __init__(self):
        self._counted = Counter()

    def add(self, name, count=1):
        self._counted[name] = count
        return self

    def most(self):
        """The name that was counted most. Raises `LookupError` where nothing was."""
        return self._counted.most_common(1)[0][0]
