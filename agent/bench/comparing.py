"""Compares two runs of a benchmark task by task. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agent.bench.score import Entry, Share, share


@dataclass(frozen=True, slots=True)
class Comparison:
    """`gained` and `lost` are the tasks that only the second or only the first run got right."""

    tasks: int  # in both runs, and measured in both
    first: Share  # right
    second: Share
    gained: tuple[str, ...]
    lost: tuple[str, ...]
    p: float  # how likely a difference like this is by chance
    only_first: int  # tasks that the other run lacks
    only_second: int
    tokens: tuple[int, int]
    seconds: tuple[float, float]


def compare(first: Sequence[Entry], second: Sequence[Entry]) -> Comparison:
    """A task is right if it is solved or repaired, and the judge agrees; without a judgement, if it is solved."""
    one, two = _measured(first), _measured(second)
    both = [id_ for id_ in one if id_ in two]
    right_one, right_two = {id_ for id_ in both if _right(one[id_])}, {id_ for id_ in both if _right(two[id_])}
    gained = tuple(id_ for id_ in both if id_ in right_two - right_one)
    lost = tuple(id_ for id_ in both if id_ in right_one - right_two)
    return Comparison(
        tasks=len(both),
        first=share(len(right_one), len(both)),
        second=share(len(right_two), len(both)),
        gained=gained,
        lost=lost,
        p=by_chance(len(gained), len(lost)),
        only_first=len(one) - len(both),
        only_second=len(two) - len(both),
        tokens=(sum(one[id_].tokens for id_ in both), sum(two[id_].tokens for id_ in both)),
        seconds=(sum(one[id_].seconds or 0.0 for id_ in both), sum(two[id_].seconds or 0.0 for id_ in both)),
    )


def by_chance(gained: int, lost: int) -> float:
    """The exact two-sided McNemar test: a fair coin decides each task on which the runs differ (Q. McNemar, 1947)."""
    differing = gained + lost
    tail = sum(math.comb(differing, count) for count in range(min(gained, lost) + 1)) / 2**differing
    return float(min(1.0, 2 * tail))


def _measured(entries: Sequence[Entry]) -> Mapping[str, Entry]:
    return {one.id: one for one in entries if one.error is None and one.skipped is None}


def _right(one: Entry) -> bool:
    return one.plausible and one.heldout_correct is not False
