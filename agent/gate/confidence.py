"""How likely a repair is right and not only green, and what speaks against it. Pure.

A logistic form with few coefficients, rounded. The first five were fitted on 133 repairs that the search found for
HumanEvalFix (even half, each half of the tests once as oracle) and that the challenge let pass; 123 of them were right by the
held-out tests. The last three are estimates: those repairs were all small, and no model proposed any of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from agent.challenge.judgement import Challenged
from agent.contract.proposal import Candidate
from agent.edits.changes import changed_lines

SURE = 0.6  # below it, a repair says that it is not sure

START = 2.7
ALTERNATIVES = -0.3  # for each doubling of the number of plausible changes
KEPT = 0.4  # where an example of a docstring, or a test from the specification, holds with it
DOUBT = -1.5  # for each doubt of the challenge, at most two
PRIOR = 0.6  # times what its proposer believes, 0..1: two small changes together are believed less than one
MODEL = -1.2  # a model's change: nobody has looked for others that pass
TEN_LINES = -0.25  # for each ten changed lines
DEGRADED = -0.4  # for each step that fell back to something weaker


@dataclass(frozen=True, slots=True)
class Confidence:
    value: float  # 0..1
    doubts: tuple[str, ...]  # why it is not higher, a clause each


def estimate(candidate: Candidate, alternatives: int, degraded: Sequence[str], challenged: Challenged) -> Confidence:
    """`alternatives` counts the other plausible changes; the same step may be in `degraded` more than once."""
    lines, fallen = changed_lines(candidate.edits), tuple(dict.fromkeys(degraded))
    odds = START + ALTERNATIVES * math.log2(1 + max(0, alternatives)) + PRIOR * candidate.prior
    odds += KEPT * (challenged.kept > 0) + DOUBT * min(2, len(challenged.doubts))
    odds += MODEL * candidate.rung.startswith("model") + TEN_LINES * lines / 10 + DEGRADED * len(fallen)
    doubts = list(challenged.doubts)
    if lines > 20:
        doubts.append(f"it changes {lines} lines")
    doubts += [f"the step `{step}` had to fall back to something weaker" for step in fallen]
    return Confidence(round(1 / (1 + math.exp(-max(-5.0, odds))), 2), tuple(doubts))
