"""The figures of `breaks` and `stale`: what an attempt healed, and what it at least reported. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agent.bench.score import Entry
from agent.contract.outcome import VERY_SURE

TOLD = ("withheld", "reversed", "located", "found")


def figures(entries: Sequence[Entry]) -> Mapping[str, Any]:
    """Counts of tasks, and the same over the repairs with a confidence of `VERY_SURE`."""
    posed = [entry for entry in entries if entry.skipped is None]
    sure = [entry for entry in posed if entry.plausible and entry.confidence is not None and entry.confidence >= VERY_SURE]
    return {**_counts(posed), "very_sure": _counts(sure)}


def _counts(entries: Sequence[Entry]) -> dict[str, int]:
    tried = [entry for entry in entries if entry.error is None]
    healed = [entry for entry in tried if entry.plausible]
    return {
        "tasks": len(entries),
        "error": len(entries) - len(tried),
        "tried": len(tried),
        "healed": len(healed),
        "right": sum(entry.heldout_correct is True for entry in healed),
        "wrong": sum(entry.heldout_correct is False for entry in healed),
        "right_by_suite_only": sum(
            entry.heldout_correct is True and entry.details.get("suite_only") is True for entry in healed
        ),
        "unjudged": sum(entry.heldout_correct is None for entry in healed),
        **{name: sum(entry.details.get(name) is True for entry in tried) for name in TOLD},
    }
