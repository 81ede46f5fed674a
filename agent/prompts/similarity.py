"""How much a place has to do with a failing test by its words alone: `test_block_quote` and `MarkdownRenderer.block_quote`.

Names of tests say what they are about. Words that many places share say little (inverse document frequency). Pure.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_EMPTY = frozenset(
    {"test", "testing", "py", "src", "lib", "a", "the", "of", "in", "on", "is", "not", "and", "with", "self", "init"}
)


def words(name: str) -> frozenset[str]:
    """The words of a path or a qualified name, in lower case, singular."""
    found = (word.lower() for word in _WORD.findall(name))
    return frozenset(word.removesuffix("s") if len(word) > 3 else word for word in found) - _EMPTY


def affinities(test: str, places: Sequence[str]) -> list[float]:
    """For each place the share, 0..1, of the test's telling words that it has too; `places` are "path name" texts."""
    told = [words(place) for place in places]
    seen = Counter(word for each in told for word in each)
    weight = {word: math.log((len(places) + 1) / seen[word]) for word in words(test) if seen[word]}
    total = sum(weight.values())
    return [sum(weight.get(word, 0.0) for word in each) / total if total else 0.0 for each in told]
