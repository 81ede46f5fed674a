"""Do two sentences say the same? By their words alone, without a model. Pure."""

from __future__ import annotations

import re

SAME = 0.75  # share of all their words that both have
_WORD = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*|\d+|[^\w\s'\"`.,;:()]+")
_EMPTY = frozenset(
    {"a", "an", "the", "is", "are", "was", "of", "to", "in", "on", "and", "it", "its", "that", "this", "which", "so"}
)


def alike(one: str, other: str) -> bool:
    """The same words in whatever order; names, numbers and operators count as words."""
    a, b = _words(one), _words(other)
    return one == other or (bool(a | b) and len(a & b) / len(a | b) >= SAME)


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.lower())) - _EMPTY
