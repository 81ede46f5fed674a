"""Similarity of a failing test and a location by their names: `test_block_quote` and `MarkdownRenderer.block_quote`.

Words shared by many locations count less (inverse document frequency). Pure.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_STOP_WORDS = frozenset(
    {"test", "testing", "py", "src", "lib", "a", "the", "of", "in", "on", "is", "not", "and", "with", "self", "init"}
)


def words(name: str) -> frozenset[str]:
    """The words of a path or a qualified name, in lower case, singular."""
    found = (word.lower() for word in _WORD.findall(name))
    return frozenset(word.removesuffix("s") if len(word) > 3 else word for word in found) - _STOP_WORDS


def similarities(test: str, locations: Sequence[str]) -> list[float]:
    """For each location ("path name"), the weighted share, 0..1, of the test's words that it contains."""
    names = [words(each) for each in locations]
    seen = Counter(word for each in names for word in each)
    weight = {word: math.log((len(locations) + 1) / seen[word]) for word in words(test) if seen[word]}
    total = sum(weight.values())
    return [sum(weight.get(word, 0.0) for word in each) / total if total else 0.0 for each in names]
