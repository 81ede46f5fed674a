"""The results of a benchmark: one entry per task, and the figures over all tasks. Pure."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import pairwise
from statistics import fmean
from typing import Any, TypeVar

import msgspec

from agent.bench.lab import Judgement
from agent.contract.budget import Usage
from agent.contract.outcome import NoRepair, Outcome, Repair
from agent.contract.proposal import is_model
from agent.contract.words import capitalized
from agent.edits.changes import diff

BANDS = (0.0, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)  # edges of the confidence bands
_Z = 1.959964  # normal quantile of a two-sided 95 % interval
Task = TypeVar("Task", bound=Hashable)


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One task's result. Fields that do not apply are null; `error` is set if it says nothing about the engine."""

    id: str
    group: str
    outcome: str  # a value of `agent.contract.outcome.Outcome`
    plausible: bool  # a repair passed the gate
    heldout_correct: bool | None = None
    judged_by: str | None = None
    seconds: float | None = None  # for the whole product path, without the judge
    candidates: int = 0
    tokens: int = 0
    prompt_tokens: int = 0  # the part of `tokens` that was sent to models
    cost: float | None = 0.0  # US dollars; null if no call's price is known
    iterations: int = 0  # rounds in which a candidate was judged
    rung: str | None = None  # the rung that found the repair
    title: str | None = None
    diff: str | None = None
    confidence: float | None = None
    alternatives: int | None = None
    reason: str | None = None  # why there is no repair
    details: Mapping[str, Any] = {}
    error: str | None = None
    skipped: str | None = None  # why there is nothing to heal: the task does not count


class Share(msgspec.Struct, frozen=True):
    """`count` of `of`, with the 95 % interval of the rate."""

    count: int
    of: int
    low: float
    high: float


class Band(msgspec.Struct, frozen=True):
    """The judged repairs whose confidence lies in one band."""

    low: float
    high: float
    mean_confidence: float
    correct: Share


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """Figures over all tasks. Times are seconds to the verified repair, over the plausible tasks."""

    tasks: int  # runs, if tasks ran several times
    distinct: int  # different tasks
    skipped: int  # not counted in `tasks`
    plausible: int
    heldout_correct: int
    judged: int  # plausible tasks that could be judged
    failed: int  # tasks whose infrastructure or model failed: the shares leave them out
    median_s: float | None
    p90_s: float | None
    candidates: int
    tokens: int
    cost: float | None  # of the calls whose price is known; null if there are none
    intervals: Mapping[str, Share]
    groups: Mapping[str, Mapping[str, Share]]
    rungs: Mapping[str, int]  # repairs by rung
    without_model: int  # repairs by rungs without a model; the other plausible ones needed one
    reliability: Sequence[Band]


def entry(id_: str, group: str, result: Repair | NoRepair, seconds: float, judgement: Judgement | None) -> Entry:
    """`judgement` is about the repair, or about what is said instead of one; `seconds` is wall time."""
    log, usage = result.log, result.usage
    repair = result if isinstance(result, Repair) else None
    ended = result if isinstance(result, NoRepair) else None
    outcome, error = ended.outcome if ended else Outcome.HEALED, None
    if ended is not None and log.outage:
        outcome, error = Outcome.INFRASTRUCTURE, f"{capitalized(log.outage).rstrip('.')}."
    elif ended is not None and outcome in (Outcome.INFRASTRUCTURE, Outcome.ERROR):
        error = ended.reason
    return Entry(
        id=id_,
        group=group,
        outcome=outcome.value,
        plausible=repair is not None,
        heldout_correct=judgement.heldout_correct if judgement else None,
        judged_by=judgement.how if judgement else None,
        seconds=round(seconds, 3),
        candidates=sum(cost.tried for cost in log.rungs),
        tokens=usage.tokens_in + usage.tokens_out,
        prompt_tokens=usage.tokens_in,
        cost=usage.cost,
        iterations=len({iteration.number for iteration in log.iterations}),
        rung=log.iterations[-1].rung if repair and log.iterations else None,
        title=repair.title if repair else None,
        diff=diff(repair.edits) if repair else None,
        confidence=repair.confidence if repair else None,
        alternatives=repair.alternatives if repair else None,
        reason=ended.reason if ended else None,
        details=judgement.details if judgement else {},
        error=error,
    )


def failed(id_: str, group: str, outcome: Outcome, why: str, usage: Usage = Usage()) -> Entry:
    """The entry of a task whose run says nothing about the engine."""
    return Entry(
        id=id_,
        group=group,
        outcome=outcome.value,
        plausible=False,
        tokens=usage.tokens_in + usage.tokens_out,
        prompt_tokens=usage.tokens_in,
        cost=usage.cost,
        error=why,
    )


def skipped(id_: str, group: str, why: str) -> Entry:
    """The entry of a task in which there is nothing to heal."""
    return Entry(id=id_, group=group, outcome=Outcome.NOTHING_FAILED.value, plausible=False, skipped=why)


def summary(everything: Sequence[Entry]) -> Summary:
    entries = [one for one in everything if one.skipped is None]
    healed = [one for one in entries if one.plausible]
    times = sorted(one.seconds for one in healed if one.seconds is not None)
    priced = [one.cost for one in entries if one.cost is not None]
    groups = sorted({one.group for one in entries})
    measured = [one for one in entries if one.error is None]
    return Summary(
        tasks=len(entries),
        distinct=len({task_of(one.id) for one in entries}),
        skipped=len(everything) - len(entries),
        plausible=len(healed),
        heldout_correct=_correct(entries),
        judged=sum(one.heldout_correct is not None for one in healed),
        failed=len(entries) - len(measured),
        median_s=quantile(times, 0.5),
        p90_s=quantile(times, 0.9),
        candidates=sum(one.candidates for one in entries),
        tokens=sum(one.tokens for one in entries),
        cost=sum(priced) if priced or not entries else None,
        intervals=_shares(measured),
        groups={group: _shares([one for one in measured if one.group == group]) for group in groups},
        rungs={rung: sum(one.rung == rung for one in healed) for rung in sorted({one.rung or "?" for one in healed})},
        without_model=sum(not is_model(one.rung or "") for one in healed),
        reliability=reliability((task_of(one.id), one.confidence, one.heldout_correct) for one in entries),
    )


def repaired(everything: Sequence[Entry]) -> dict[str, int]:
    """Repairs in the words for written code. `base` is 0: the code that is given is wrong."""
    known = [one for one in everything if one.skipped is None and one.error is None]
    right = sum(one.plausible and one.heldout_correct is True for one in known)
    return {"base": 0, "healed": right, "unresolved": sum(not one.plausible for one in known), "validated": right}


def reliability(judged: Iterable[tuple[Hashable, float | None, bool | None]]) -> list[Band]:
    """How often the repairs in each confidence band are correct, each given as task, confidence and judgement.

    Repairs without a confidence or a judgement do not count.
    """
    known = [(task, sure, right) for task, sure, right in judged if sure is not None and right is not None]
    bands = []
    for low, high in pairwise(BANDS):
        inside = [(task, sure, right) for task, sure, right in known if low <= sure < high or sure == high == BANDS[-1]]
        if inside:
            mean = fmean(sure for _, sure, _ in inside)
            bands.append(Band(low, high, round(mean, 4), share_by_task([(task, right) for task, _, right in inside])))
    return bands


def share(count: int, of: int) -> Share:
    """For independent trials."""
    return Share(count, of, *interval(count, of))


def share_by_task(runs: Sequence[tuple[Hashable, bool]]) -> Share:
    """The share of right runs, each given with its task.

    The interval is that of the mean over tasks, as runs of one task are not independent: a task is one trial, however often it
    ran. That is too wide if the runs of a task differ, and never too narrow.
    """
    rates = rates_by_task(runs)
    return Share(sum(right for _, right in runs), len(runs), *interval(sum(rates.values()), len(rates)))


def rates_by_task(runs: Iterable[tuple[Task, bool]]) -> dict[Task, float]:
    """The share of right runs of each task."""
    by_task: dict[Task, list[bool]] = {}
    for task, right in runs:
        by_task.setdefault(task, []).append(right)
    return {task: fmean(each) for task, each in by_task.items()}


def interval(count: float, of: int) -> tuple[float, float]:
    """The Wilson score interval (E. B. Wilson, 1927) at 95 %, which also holds for few trials and near 0 and 1."""
    if of == 0:
        return 0.0, 1.0
    rate, square = count / of, _Z * _Z
    middle = (rate + square / (2 * of)) / (1 + square / of)
    margin = _Z / (1 + square / of) * math.sqrt(rate * (1 - rate) / of + square / (4 * of * of))
    return round(max(0.0, middle - margin), 4), round(min(1.0, middle + margin), 4)


def bootstrap(rates: Sequence[float], *, draws: int = 2_000, seed: int = 0) -> tuple[float, float]:
    """The 95 % percentile interval of a mean (B. Efron, 1979). Resamples tasks, so several runs of one task count together.

    Equal rates resample to themselves, which says nothing about other tasks: then it is Wilson's interval.
    """
    if len(set(rates)) < 2:
        return interval(sum(rates), len(rates))
    chance = random.Random(seed)  # noqa: S311 - statistics
    means = sorted(sum(chance.choices(rates, k=len(rates))) / len(rates) for _ in range(draws))
    return round(means[int(0.025 * draws)], 4), round(means[int(0.975 * draws) - 1], 4)


def repeated(id_: str, run: int) -> str:
    """The id of a task's nth run, from 1."""
    return id_ if run == 1 else f"{id_}@{run}"


def task_of(id_: str) -> str:
    """The task's id, without the number of the run."""
    head, at, number = id_.rpartition("@")
    return head if at and number.isdigit() else id_


def quantile(ordered: Sequence[float], part: float) -> float | None:
    """The value at `part` (0..1) of an ordered sequence, interpolated between neighbours; None if it is empty."""
    if not ordered:
        return None
    at = part * (len(ordered) - 1)
    below = int(at)
    above = min(below + 1, len(ordered) - 1)
    return round(ordered[below] + (ordered[above] - ordered[below]) * (at - below), 3)


def _correct(entries: Iterable[Entry]) -> int:
    return sum(one.heldout_correct is True for one in entries)


def _shares(entries: Sequence[Entry]) -> dict[str, Share]:
    def of(is_right: Callable[[Entry], bool]) -> Share:
        return share_by_task([(task_of(one.id), is_right(one)) for one in entries])

    found = {"plausible": of(lambda one: one.plausible), "heldout_correct": of(lambda one: one.heldout_correct is True)}
    is_written = any("base" in one.details for one in entries)
    return found | ({"base": of(lambda one: bool(one.details.get("base")))} if is_written else {})
