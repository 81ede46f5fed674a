"""Estimates how likely a repair is correct, beyond passing the tests, and lists the doubts. Pure.

A logistic function with few, rounded coefficients. The first five were fitted on 133 repairs that mutation search found for
HumanEvalFix (even half, each half of the tests once as oracle) and that the challenge accepted; 123 of them passed the held-out
tests. The last three are estimates: those repairs were all small, and no model proposed any of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from agent.challenge.judgement import Challenged
from agent.contract.outcome import VERY_SURE
from agent.contract.proposal import Candidate, is_model
from agent.edits.changes import changed_lines

SURE = 0.6  # below this, the pull request shows a warning

START = 2.7
ALTERNATIVES = -0.3  # for each doubling of the number of plausible changes
KEPT = 0.4  # if a docstring example, or a test from the specification, passes
DOUBT = -1.5  # for each doubt of the challenge, at most two
PRIOR = 0.6  # times the proposer's estimate, 0..1, which is lower for two mutations than for one
MODEL = -1.2  # for a model's change: alternatives were not searched
TEN_LINES = -0.25  # for every ten changed lines
MANY = 3  # other plausible changes: from then on, the tests leave a choice, and none of the changes is "very sure"
DEGRADED = -0.4  # for each step that fell back to something weaker


@dataclass(frozen=True, slots=True)
class Confidence:
    value: float  # 0..1
    doubts: tuple[str, ...]  # reasons against it, a clause each


def estimate(candidate: Candidate, alternatives: int, degraded: Sequence[str], challenged: Challenged) -> Confidence:
    """`alternatives` counts the other plausible changes; `degraded` may name a step more than once."""
    lines, fallen = changed_lines(candidate.edits), tuple(dict.fromkeys(degraded))
    odds = START + ALTERNATIVES * math.log2(1 + max(0, alternatives)) + PRIOR * candidate.prior
    odds += KEPT * (challenged.kept > 0) + DOUBT * min(2, len(challenged.doubts))
    odds += MODEL * is_model(candidate.rung) + TEN_LINES * lines / 10 + DEGRADED * len(fallen)
    doubts = list(challenged.doubts)
    if lines > 20:
        doubts.append(f"it changes {lines} lines")
    doubts += [f"the step `{step}` could not run in full" for step in fallen]
    value = round(1 / (1 + math.exp(-max(-5.0, odds))), 2)
    return Confidence(min(value, VERY_SURE - 0.01) if alternatives >= MANY else value, tuple(doubts))
