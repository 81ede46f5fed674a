"""How likely a repair is right and not only green, and what speaks against it. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from agent import words
from agent.edits import changed_lines
from agent.task import Candidate

SURE = 0.6  # below it, a repair says that it is not sure


@dataclass(frozen=True, slots=True)
class Confidence:
    value: float  # 0..1
    doubts: tuple[str, ...]  # why it is not higher, a clause each


def estimate(candidate: Candidate, alternatives: int, degraded: Sequence[str]) -> Confidence:
    """Begins at what was measured for a single plausible patch of the search (33 of 36), or 0.85 for a model's.

    Each other plausible change takes off 3 % (44 of 56 at eight), each ten changed lines 5 %, each step that fell back to
    something weaker 5 %, and the proposer's own prior up to a tenth.
    """
    value = 0.85 if candidate.rung.startswith("model") else 0.92
    value *= math.pow(0.97, min(alternatives, 10))
    value *= math.pow(0.95, (lines := changed_lines(candidate.edits)) / 10)
    value *= math.pow(0.95, len(set(degraded)))
    value *= 0.9 + 0.1 * candidate.prior
    doubts = []
    if alternatives:
        doubts.append(f"{words.counted(alternatives, 'other change')} would make the same tests pass")
    if lines > 20:
        doubts.append(f"it changes {lines} lines")
    doubts += [f"the step `{step}` had to fall back to something weaker" for step in dict.fromkeys(degraded)]
    return Confidence(round(min(1.0, max(0.05, value)), 2), tuple(doubts))
