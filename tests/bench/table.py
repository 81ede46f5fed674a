"""One measured figure, and how figures are shown."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

Say = Callable[[str], None]
"""Tells the person who waits what is going on."""


@dataclass(frozen=True, slots=True)
class Figure:
    """`measured` with its unit; `aim` and whether it is `met`, where there is one."""

    name: str
    measured: str
    aim: str = ""
    met: bool | None = None
    note: str = ""


def spread(values: Sequence[float], unit: str, digits: int) -> str:
    """Median, and the range where there is one: "12 ms (10–15)"."""
    middle = f"{statistics.median(values):.{digits}f} {unit}"
    return middle if len(values) == 1 else f"{middle} ({min(values):.{digits}f}–{max(values):.{digits}f})"


def table(figures: Sequence[Figure]) -> str:
    """Markdown that is read well as it stands."""
    rows = [("figure", "aim", "measured", "met", "note")]
    rows += [
        (figure.name, figure.aim, figure.measured, {None: "", True: "yes", False: "no"}[figure.met], figure.note)
        for figure in figures
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    lines = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)
