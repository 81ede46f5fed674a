"""Estimates how likely a repair is correct, beyond passing the tests, and lists the doubts.

A logistic function of a few signals, with coefficients of its own for each kind of rung. `confidence.json` has them, with a
description of the data that they were fitted on; `selfheal bench fit` fits them anew. Rungs without data have estimates, and
are never "very sure".
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files

import msgspec

from agent.challenge.judgement import Challenged
from agent.contract.outcome import VERY_SURE
from agent.contract.proposal import Candidate, is_model, is_search, rung_kind
from agent.edits.changes import changed_lines

SURE = 0.6  # below this, the pull request shows a warning
MANY = 3  # other plausible changes: from then on, the tests leave a choice, and none of the changes is "very sure"
ASKED = 0.7  # at most, while a question about the change is open: published only for the search, with the question
UNFINISHED = 0.6  # at most, while the check fails behind its tests: never published by default
AGAINST = ("doubts", "elsewhere", "degraded")  # signals that speak against a change, or that little was looked at
OTHER = "other"  # the rungs of extensions


class Coefficients(msgspec.Struct, frozen=True):
    """Of one kind of rung. `weights` are added for each unit of a signal, to the log odds of being right."""

    data: str  # what they were fitted on, or that they are estimates
    date: str
    start: float
    weights: Mapping[str, float]
    very_sure: bool = False  # at least 95 % of at least 60 such repairs were right, in repositories not used for fitting


@dataclass(frozen=True, slots=True)
class Confidence:
    value: float  # 0..1
    doubts: tuple[str, ...]  # reasons against it, a clause each
    signals: Mapping[str, float] = field(default_factory=dict)


@functools.cache
def coefficients() -> Mapping[str, Coefficients]:
    """By the kind of rung: "patterns", "model", …"""
    text = files("agent.gate").joinpath("confidence.json").read_bytes()
    return msgspec.json.decode(text, type=dict[str, Coefficients])


def signals(
    candidate: Candidate, alternatives: int, degraded: Sequence[str], challenged: Challenged, failing: int, elsewhere: str = ""
) -> dict[str, float]:
    """What the confidence is computed from: each between 0 and about 5, where 0 is nothing special."""
    return {
        "prior": candidate.prior,
        "alternatives": math.log2(1 + max(0, alternatives)),
        "alike": math.log2(1 + len(challenged.alike)),
        "unlike": math.log2(1 + challenged.unlike),
        "passing": math.log2(1 + challenged.passing),
        "undecided": math.log2(1 + challenged.undecided),
        "pinned": float(challenged.neighbours >= 3 and not challenged.passing),
        "kept": float(challenged.kept > 0),
        "compared": float(challenged.compared > 0),
        "elsewhere": float(bool(elsewhere)),
        "doubts": float(min(2, len(challenged.doubts))),
        "failing": math.log2(max(1, min(64, failing))),
        "lines": min(5.0, changed_lines(candidate.edits) / 10),
        "degraded": float(len(set(degraded))),
    }


def confidence_of(known: Coefficients, found: Mapping[str, float]) -> float:
    """0..1, from the signals of a change.

    It is "very sure" only where that was earned, and where the tests leave no choice: a few other changes, or a variant of the
    change itself, that pass too and behave differently.
    """
    odds = known.start + sum(weight * found.get(name, 0.0) for name, weight in known.weights.items())
    value = round(1 / (1 + math.exp(-max(-5.0, min(5.0, odds)))), 2)
    choice = found.get("alternatives", 0.0) >= math.log2(1 + MANY) or found.get("undecided", 0.0) > 0
    return min(value, round(VERY_SURE - 0.01, 2)) if choice or not known.very_sure else value


def estimate(
    candidate: Candidate,
    alternatives: int,
    degraded: Sequence[str],
    challenged: Challenged,
    failing: int = 1,
    *,
    reversal: str = "",
    elsewhere: str = "",
    asked: Sequence[str] = (),
    unfinished: Sequence[str] = (),
) -> Confidence:
    """`alternatives` counts the other plausible changes; `degraded` may name a step more than once; `failing` counts the
    verdicts that turn green. If the last change is known, `reversal` and `elsewhere` are clauses of `agent.guard.reversals`.
    `asked` are the questions of `agent.guard.rules`: no fit decides about them, but people. Nor does one about a change of the
    search whose own variant passes too and behaves differently, unless the review decided: the tests do not say what is meant.
    `unfinished` are clauses about what a check does after its tests.

    Without a model, only what stood there before can take back a change, and other rules decide whether it may: then `reversal`
    tells people, and says nothing against the repair.
    """
    if reversal and is_model(candidate.rung):
        challenged = replace(challenged, doubts=(*challenged.doubts, reversal))
        reversal = ""
    if challenged.undecided and is_search(candidate.rung):
        asked = (*asked, challenged.loose)
        challenged = replace(challenged, loose="")
    found = signals(candidate, alternatives, degraded, challenged, failing, elsewhere)
    value = confidence_of(coefficients().get(rung_kind(candidate.rung), coefficients()[OTHER]), found)
    value = min(value, UNFINISHED if unfinished else ASKED if asked else 1.0)
    beside = [clause for clause in (reversal, elsewhere) if clause]
    return Confidence(value, (*asked, *unfinished, *_doubts(candidate, degraded, challenged), *beside), found)


def _doubts(candidate: Candidate, degraded: Sequence[str], challenged: Challenged) -> list[str]:
    doubts = [*challenged.doubts, *([challenged.loose] if challenged.loose else [])]
    if (lines := changed_lines(candidate.edits)) > 20:
        doubts.append(f"it changes {lines} lines")
    return doubts + [f"the step `{step}` could not run in full" for step in dict.fromkeys(degraded)]
