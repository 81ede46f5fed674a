"""Which believed causes a failed change speaks against, so that they are not tried again; `reflect` collects them. Pure.

A change that left the failure exactly as it was, or the second one that failed for the same cause, refutes that cause. A change
that altered the failure does not: its cause may still be right.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from agent.contract.proposal import Diagnosis

SAME = 0.75  # share of their words that two sentences have in common
_WORD = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*|\d+|[^\w\s'\"`.,;:()]+")
_STOP_WORDS = frozenset(
    {"a", "an", "the", "is", "are", "was", "of", "to", "in", "on", "and", "it", "its", "that", "this", "which", "so"}
)


def causes_left(diagnosis: Diagnosis, refuted: Sequence[str]) -> tuple[str, ...]:
    """The causes that are not refuted, likeliest first."""
    causes = (diagnosis.cause, *diagnosis.hypotheses)
    return tuple(cause for cause in causes if not any(is_similar(cause, each) for each in refuted))


def is_similar(one: str, other: str) -> bool:
    """Do two sentences use the same words, in any order? Names, numbers and operators count as words."""
    a, b = _words(one), _words(other)
    return one == other or (bool(a | b) and len(a & b) / len(a | b) >= SAME)


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.lower())) - _STOP_WORDS
