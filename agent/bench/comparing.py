"""Compares two runs of a benchmark task by task. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from agent.bench.score import Entry, Share, rates_by_task, share_by_task, task_of


@dataclass(frozen=True, slots=True)
class RunComparison:
    """`gained` and `lost` are the tasks that the second run got right more often, or less often, than the first."""

    tasks: int  # in both runs, and measured in both
    first: Share  # right, of all runs of these tasks
    second: Share
    gained: tuple[str, ...]
    lost: tuple[str, ...]
    p: float  # how likely a difference like this is by chance
    only_first: int  # runs of tasks that the other one lacks
    only_second: int
    tokens: tuple[int, int]
    seconds: tuple[float, float]


def compare(first: Sequence[Entry], second: Sequence[Entry]) -> RunComparison:
    """A task is right if it is solved or repaired, and the judge agrees; without a judgement, if it is solved.

    If tasks ran several times, they are compared by the share of their runs that is right."""
    one, two = _measured(first), _measured(second)
    both = [id_ for id_ in one if id_ in two]
    runs_one, runs_two = ([(task_of(id_), _right(each[id_])) for id_ in both] for each in (one, two))
    gained, lost = differing(runs_one, runs_two)
    return RunComparison(
        tasks=len({task_of(id_) for id_ in both}),
        first=share_by_task(runs_one),
        second=share_by_task(runs_two),
        gained=gained,
        lost=lost,
        p=by_chance(len(gained), len(lost)),
        only_first=len(one) - len(both),
        only_second=len(two) - len(both),
        tokens=(sum(one[id_].tokens for id_ in both), sum(two[id_].tokens for id_ in both)),
        seconds=(sum(one[id_].seconds or 0.0 for id_ in both), sum(two[id_].seconds or 0.0 for id_ in both)),
    )


def differing(first: Iterable[tuple[str, bool]], second: Iterable[tuple[str, bool]]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The tasks with a higher, and those with a lower share of right runs in the second. Both have the same tasks."""
    before, after = rates_by_task(first), rates_by_task(second)
    return tuple(id_ for id_ in before if after[id_] > before[id_]), tuple(id_ for id_ in before if after[id_] < before[id_])


def by_chance(gained: int, lost: int) -> float:
    """The exact two-sided sign test: a fair coin decides each task that differs. With one run each: Q. McNemar's test, 1947."""
    coins = gained + lost
    tail = sum(math.comb(coins, count) for count in range(min(gained, lost) + 1)) / 2**coins
    return float(min(1.0, 2 * tail))


def _measured(entries: Sequence[Entry]) -> Mapping[str, Entry]:
    return {one.id: one for one in entries if one.error is None and one.skipped is None}


def _right(one: Entry) -> bool:
    return one.plausible and one.heldout_correct is not False
