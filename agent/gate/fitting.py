"""Fits the confidence in repairs on verified changes that benchmarks judged. Pure.

A logistic regression for each kind of rung, regularized towards the estimates below (the maximum a posteriori with normal
priors), so that few data change little. A weight never gets the other sign than its estimate: a doubt cannot make a repair
surer. Each repository is judged by coefficients that were fitted on the others only.

The search makes the same small changes as a program that breaks code, so its repairs of such breaks are right more often than
those of people's bugs. Where both are among the data, this difference has a coefficient of its own, which is not kept, and
only the changes for people's bugs are judged.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import msgspec

from agent.bench.lab import VERIFIED
from agent.bench.score import Band, Entry, Share, reliability, share
from agent.contract.outcome import VERY_SURE
from agent.contract.proposal import rung_kind
from agent.gate.confidence import OTHER, Coefficients, confidence_of

FEWEST = 20  # observations of a kind of rung; with fewer, its estimate stays
FEWEST_VERY_SURE, RIGHT_VERY_SURE = 60, 0.95  # and at most half of them from one repository
THRESHOLDS = (0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9)
ESTIMATED = "an estimate: no data"
ESTIMATED_OF_MODELS = (
    "an estimate, after 12 repairs of real bugs by language models (11 right, one partly), and 159 functions that a script "
    "wrote with slips (136 right; 17 of the 31 that also pass with a change that makes a difference)"
)

_TRUST_START, _TRUST_WEIGHTS = 0.25, 2.0  # precisions of the priors around the estimates
_STEPS = 50
_WEIGHTS = {"prior": 0.6, "kept": 0.4, "pinned": 0.3, "alternatives": -0.3, "unlike": -0.2, "passing": -0.1, "undecided": -0.5,
            "elsewhere": -1.5, "lines": -0.25, "degraded": -0.4}  # fmt: skip
# A model writes more lines, of which tests rarely pin each down; what they do not decide told right from wrong best;
# and a weak one often answers its second opinions badly.
_OF_A_MODEL = {"doubts": -0.9, "undecided": -1.3, "passing": 0.0, "degraded": -0.25}
_ESTIMATES = {"patterns": (2.2, {"doubts": -1.2}), "history": (2.55, {"doubts": -1.0}), "tools": (2.55, {"doubts": -0.5}),
              "model": (2.4, _OF_A_MODEL), OTHER: (2.05, {"doubts": -1.2})}  # fmt: skip

ESTIMATES: Mapping[str, Coefficients] = MappingProxyType(
    {
        kind: Coefficients(ESTIMATED_OF_MODELS if kind == "model" else ESTIMATED, "", start, {**_WEIGHTS, **own})
        for kind, (start, own) in _ESTIMATES.items()
    }
)


@dataclass(frozen=True, slots=True)
class Observation:
    """A verified change, and whether a judge that knows more found it right."""

    repository: str
    kind: str  # of rung
    signals: Mapping[str, float]
    right: bool
    by_program: bool = False  # the bug was made by a program


class AtThreshold(msgspec.Struct, frozen=True):
    """What a threshold publishes: how much of it is right, and how much of all that is right."""

    threshold: float
    precision: Share
    published: Share  # of the right ones


class Fit(msgspec.Struct, frozen=True):
    """The coefficients of one kind of rung, and how they do on repositories that were not used for fitting."""

    coefficients: Coefficients
    observations: int = 0
    right: int = 0
    repositories: Sequence[str] = ()
    reliability: Sequence[Band] = ()
    thresholds: Sequence[AtThreshold] = ()
    very_sure: Share = share(0, 0)  # before the cap: those at or above "very sure" that are right


def observations(repository: str, entries: Iterable[Entry], by_program: bool = False) -> Iterator[Observation]:
    """The judged changes of a benchmark's results, also those that were too unsure to be published. The same change, such as
    that of one line broken at two commits, counts once."""
    seen: set[object] = set()
    for entry in entries:
        for change in _verified(entry):
            right, signals, diff = change.get("right"), change.get("signals"), change.get("diff", len(seen))
            if isinstance(right, bool) and isinstance(signals, dict) and signals and diff not in seen:
                seen.add(diff)
                yield Observation(repository, rung_kind(str(change.get("rung", ""))), signals, right, by_program)


def fit(known: Sequence[Observation], date: str) -> dict[str, Fit]:
    """By kind of rung; `date` is the day of the data, as text."""
    return {kind: _fit(kind, [one for one in known if one.kind == kind], date) for kind in ESTIMATES}


def _verified(entry: Entry) -> list[dict[str, Any]]:
    found = entry.details.get(VERIFIED)
    return [change for change in found if isinstance(change, dict)] if isinstance(found, list) else []


def _fit(kind: str, known: Sequence[Observation], date: str) -> Fit:
    estimate = ESTIMATES[kind]
    repositories = sorted({one.repository for one in known})
    if len(known) < FEWEST or len(repositories) < 2:
        return Fit(estimate, len(known), sum(one.right for one in known), repositories)
    people = [one for one in known if not one.by_program]
    left_out = [
        (confidence_of(msgspec.structs.replace(others, very_sure=True), one.signals), one.right, name)
        for name in repositories
        for others in [_regression(estimate, [each for each in known if each.repository != name])]
        for one in people or known
        if one.repository == name
    ]
    sure = [right for value, right, _ in left_out if value >= VERY_SURE]
    most = max(Counter(name for value, _, name in left_out if value >= VERY_SURE).values(), default=0)
    right = sum(one.right for one in known)
    of_people = (
        f" ({len(people)} and {sum(one.right for one in people)} for people's bugs)" if 0 < len(people) < len(known) else ""
    )
    coefficients = msgspec.structs.replace(
        _regression(estimate, known),
        data=f"{len(known)} verified changes, {right} of them right{of_people}, from {', '.join(repositories)}",
        date=date,
        very_sure=len(sure) >= max(FEWEST_VERY_SURE, 2 * most) and sum(sure) >= RIGHT_VERY_SURE * len(sure),
    )
    thresholds = [_at(threshold, left_out) for threshold in THRESHOLDS]
    bands = reliability((at, value, right) for at, (value, right, _) in enumerate(left_out))
    return Fit(coefficients, len(known), right, repositories, bands, thresholds, share(sum(sure), len(sure)))


def _at(threshold: float, judged: Sequence[tuple[float, bool, str]]) -> AtThreshold:
    published = [right for value, right, _ in judged if value >= threshold]
    right = sum(published)
    return AtThreshold(threshold, share(right, len(published)), share(right, sum(right for _, right, _ in judged)))


def _regression(estimate: Coefficients, known: Sequence[Observation]) -> Coefficients:
    """Drops the weight that went furthest to the other side, until none does."""
    names = sorted(estimate.weights)
    while True:
        start, *weights, _ = _maximum(estimate, names, known)
        wrong = {name: abs(at) for name, at in zip(names, weights, strict=True) if at * estimate.weights[name] < 0}
        if not wrong:
            rounded = {name: round(at, 3) for name, at in zip(names, weights, strict=True)}
            return Coefficients(data="", date="", start=round(start, 3), weights=rounded)
        names.remove(max(wrong, key=lambda name: wrong[name]))


def _maximum(estimate: Coefficients, names: Sequence[str], known: Sequence[Observation]) -> list[float]:
    """Start, weights, and what a program's bugs add to the start, with the highest posterior probability.

    Found by Newton's method with halved steps."""
    prior = [estimate.start, *(estimate.weights[name] for name in names), 0.0]
    trust = [_TRUST_START, *(_TRUST_WEIGHTS for _ in names), _TRUST_START]
    both = len({one.by_program for one in known}) == 2
    rows = [
        ([1.0, *(one.signals.get(name, 0.0) for name in names), float(both and one.by_program)], one.right) for one in known
    ]

    def loss(at: Sequence[float]) -> float:
        odds = [(sum(a * x for a, x in zip(at, row, strict=True)), right) for row, right in rows]
        fits = sum(math.log1p(math.exp(-abs(z))) + max(0.0, -z if right else z) for z, right in odds)
        return fits + sum(t / 2 * (a - p) ** 2 for a, p, t in zip(at, prior, trust, strict=True))

    at = list(prior)
    for _ in range(_STEPS):
        slope = [t * (a - p) for a, p, t in zip(at, prior, trust, strict=True)]
        curve = [[trust[i] if i == j else 0.0 for j in range(len(at))] for i in range(len(at))]
        for row, right in rows:
            z = sum(a * x for a, x in zip(at, row, strict=True))
            chance = 1 / (1 + math.exp(-max(-30.0, min(30.0, z))))
            for i, x in enumerate(row):
                slope[i] += (chance - right) * x
                for j, y in enumerate(row):
                    curve[i][j] += chance * (1 - chance) * x * y
        step, size = _solved(curve, slope), 1.0
        while size > 1e-6 and loss([a - size * s for a, s in zip(at, step, strict=True)]) > loss(at):
            size /= 2
        at = [a - size * s for a, s in zip(at, step, strict=True)]
        if max(map(abs, step)) * size < 1e-7:
            break
    return at


def _solved(matrix: Sequence[Sequence[float]], right: Sequence[float]) -> list[float]:
    """x of matrix · x = right, by Gaussian elimination with pivots. The matrix is positive definite."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    size = len(rows)
    for at in range(size):
        pivot = max(range(at, size), key=lambda row: abs(rows[row][at]))
        rows[at], rows[pivot] = rows[pivot], rows[at]
        for below in range(at + 1, size):
            factor = rows[below][at] / rows[at][at]
            rows[below] = [a - factor * b for a, b in zip(rows[below], rows[at], strict=True)]
    solution = [0.0] * size
    for at in reversed(range(size)):
        known = sum(rows[at][column] * solution[column] for column in range(at + 1, size))
        solution[at] = (rows[at][size] - known) / rows[at][at]
    return solution
