"""Output of `selfheal bench`: progress and tables for people, one JSON object for scripts."""

from __future__ import annotations

import json as jsonlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from agent.bench.score import Band, Entry, Share, Summary, summary
from agent.contract.words import counted
from app.cli.terminal import plain


def progress(console: Console, name: str, total: int) -> tuple[Progress, Any]:
    """A progress bar on a terminal; hidden elsewhere."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    bar = Progress(*columns, console=console, disable=not console.is_terminal)
    return bar, bar.add_task(name, total=total)


def print_entry(console: Console, entry: Entry) -> None:
    """Print one line about a finished task."""
    correct = {True: ", held-out correct", False: ", held-out wrong", None: ""}[entry.heldout_correct]
    took = f"{entry.seconds:6.1f} s" if entry.seconds is not None else "     - s"
    what = entry.error or entry.skipped or entry.title or entry.reason or ""
    style = "red" if entry.error else "green" if entry.plausible else "yellow"
    is_first = entry.plausible and entry.details.get("ended") == "first_answer"
    outcome = "skipped" if entry.skipped else "first answer accepted" if is_first else entry.outcome
    console.print(plain(f"{took}  {entry.id}: {outcome}{correct}. {what}", style), soft_wrap=not console.is_terminal)


def as_json(
    benchmark: str, options: Mapping[str, str], entries: Sequence[Entry], figures: Mapping[str, Any], *, complete: bool
) -> str:
    """All results as one object. `complete` is false if the run was stopped. `figures` are the benchmark's own."""
    result = {
        "benchmark": benchmark,
        "options": dict(options),
        "complete": complete,
        "summary": msgspec.to_builtins(summary(entries)) | dict(figures),
        "results": msgspec.to_builtins(list(entries)),
    }
    return jsonlib.dumps(result, indent=2)


def show(console: Console, entries: Sequence[Entry], figures: Mapping[str, Any], *, complete: bool, written: bool) -> None:
    """Print the tables, in the words for `written` code or for repairs.

    `figures` are the benchmark's own counts, and those of very sure repairs.
    """
    total = summary(entries)
    if not complete:
        console.print(plain(f"Stopped. These are the results of {counted(total.tasks, 'finished task')}.", "bold yellow"))
    console.print(_by_group(total, "reported solved" if written else "plausible"))
    if figures:
        console.print(_own(figures))
    if total.reliability:
        console.print(bands(total.reliability, "answers" if written else "repairs"))
    for line in _sentences(total, written=written):
        console.print(plain(line))


def _by_group(total: Summary, accepted: str) -> Table:
    found = table("", "tried", accepted, "95 %", "held-out correct", "95 %")
    for group, shares in total.groups.items() if list(total.groups) != ["all"] else ():
        _add(found, group, shares)
    found.add_section()
    _add(found, "all", total.intervals)
    return found


def _add(found: Table, name: str, shares: Mapping[str, Share]) -> None:
    plausible, correct = shares["plausible"], shares["heldout_correct"]
    cells = (str(plausible.of), str(plausible.count), interval(plausible), str(correct.count), interval(correct))
    found.add_row(plain(name), *cells)


def _own(figures: Mapping[str, Any]) -> Table:
    names = [name for name, count in figures.items() if isinstance(count, int)]
    found = table("", *names)
    found.add_row("all", *(str(figures[name]) for name in names))
    if "very_sure" in figures:
        found.add_row("very sure", *(str(figures["very_sure"][name]) for name in names))
    return found


def bands(reliability: Sequence[Band], what: str = "repairs") -> Table:
    found = table("confidence", f"{what} judged", "mean confidence", "held-out correct", "95 %")
    for band in reliability:
        right = band.correct
        cells = (
            str(right.of),
            f"{band.mean_confidence:.2f}",
            f"{right.count} ({right.count / right.of:.0%})",
            interval(right),
        )
        found.add_row(f"{band.low:.1f} to {band.high:.1f}", *cells)
    return found


def _sentences(total: Summary, *, written: bool) -> list[str]:
    cost = "unknown" if total.cost is None else f"${total.cost:.2f}"
    lines = [f"{counted(total.candidates, 'candidate')}, {counted(total.tokens, 'token')}, cost {cost}."]
    if total.median_s is not None:
        what = "an accepted answer" if written else "a verified repair"
        lines.append(f"Time to {what}: median {total.median_s:.1f} s, 90th percentile {total.p90_s:.1f} s.")
    if total.rungs:
        named = ", ".join(f"{rung} {count}" for rung, count in total.rungs.items())
        with_model = total.plausible - total.without_model
        if written:  # each has needed a model, whatever changed it last
            lines.append(f"Accepted answers by the rung of their last change: {named}.")
        else:
            lines.append(f"Repairs by rung: {named}; {total.without_model} without a model, {with_model} with one.")
    if total.skipped:
        lines.append(f"Skipped, because there is nothing to repair: {total.skipped}.")
    if total.failed:
        lines.append(not_measured(total))
    if total.distinct < total.tasks:
        lines.append(by_task(total))
    return lines


def not_measured(total: Summary) -> str:
    return (
        f"Errors: {total.failed} of {counted(total.tasks, 'task')} could not be measured, and the rates leave them out. "
        "The list of tasks says why; a rerun with the same `--resume` tries them again."
    )


def by_task(total: Summary) -> str:
    runs = f"{counted(total.tasks, 'run')} of {counted(total.distinct, 'task')}"
    return f"{runs}: intervals and tests are by task, so the runs of one task count as one trial."


def interval(share: Share) -> str:
    return f"{share.low:.0%} to {share.high:.0%}" if share.of else ""


def table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2))
    for at, column in enumerate(columns):
        table.add_column(column, justify="right" if at else "left")
    return table
