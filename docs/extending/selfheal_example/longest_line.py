"""A metric: the longest line of the written code."""

from __future__ import annotations

from agent.bench.metrics import Metric
from agent.bench.score import Entry


def metric() -> Metric:
    """The entry point in `selfheal.metrics`."""
    return Metric("longest_line", "characters of the longest line", _measure)


def _measure(entry: Entry) -> float | None:
    """None if the metric does not apply to this task."""
    code = entry.details.get("code") or {}
    return float(max((len(line) for text in code.values() for line in text.splitlines()), default=0))
