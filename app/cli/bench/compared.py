"""`selfheal bench compare`: what another model, prompt or switch changed, task by task."""

from __future__ import annotations

from pathlib import Path

import msgspec
from rich.console import Console

from agent.bench.comparing import RunComparison, compare
from agent.bench.lab import BadInput
from agent.contract.words import counted
from app.cli.bench.report import interval, table
from app.cli.bench.results_file import Header, header, stored
from app.cli.terminal import plain

NAMED = 10  # tasks


def read(first: Path, second: Path) -> tuple[Header, Header, RunComparison]:
    """Raises `BadInput`, also for results of different benchmarks."""
    one, two = header(first), header(second)
    if one.benchmark != two.benchmark:
        raise BadInput(
            f"{first} has results of `{one.benchmark}` and {second} of `{two.benchmark}`; compare runs of one benchmark"
        )
    found = compare(stored(first), stored(second))
    if not found.tasks:
        raise BadInput(f"{first} and {second} have no measured task in common")
    return one, two, found


def as_json(one: Header, two: Header, found: RunComparison) -> str:
    told = {"first": one, "second": two, "comparison": found}
    return msgspec.json.format(msgspec.json.encode(told), indent=2).decode()


def by_chance(found: RunComparison) -> str:
    sure = "is unlikely to be chance" if found.p < 0.05 else "may be chance"
    return f"The difference {sure} (exact sign test by task: p = {found.p:.3g})."


def show(console: Console, one: Header, two: Header, found: RunComparison) -> None:
    for name in sorted({*one.options, *two.options}):
        before, after = one.options.get(name, "-"), two.options.get(name, "-")
        if before != after:
            console.print(plain(f"{name}: {before} → {after}", "bold"))
    rows = table(f"{one.benchmark}, {counted(found.tasks, 'task')}", "right", "95 %", "tokens", "seconds")
    for name, right, tokens, seconds in (
        ("first run", found.first, found.tokens[0], found.seconds[0]),
        ("second run", found.second, found.tokens[1], found.seconds[1]),
    ):
        rows.add_row(name, f"{right.count} ({right.count / right.of:.0%})", interval(right), f"{tokens:,}", f"{seconds:,.0f}")
    console.print(rows)
    for label, ids in (("second", found.gained), ("first", found.lost)):
        more = f" and {len(ids) - NAMED} more" if len(ids) > NAMED else ""
        named = f": {', '.join(ids[:NAMED])}{more}" if ids else ""
        console.print(plain(f"The {label} run did better on {counted(len(ids), 'task')}{named}."))
    console.print(plain(by_chance(found)))
    if found.only_first or found.only_second:
        console.print(
            plain(
                f"Not compared: {counted(found.only_first, 'task')} of the first run, {found.only_second} of the second.", "dim"
            )
        )
