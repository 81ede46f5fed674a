"""The pictures of a benchmark's report, as PNG and SVG. Needs matplotlib, from the extra `bench`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from agent.bench.score import Entry, share_by_task, task_of

WRONG, BASE, RIGHT = "#c2410c", "#94a3b8", "#15803d"
LINES = ("#15803d", "#1d4ed8", "#a21caf", "#b45309", "#0e7490", "#4d7c0f")
Runs = Mapping[str, Sequence[Entry]]
"""The results of each configuration, by its name."""


def draw(runs: Runs, folder: Path) -> dict[str, str]:
    """Draw all pictures; returns their titles by file name without extension. Raises `ImportError` without matplotlib."""
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams.update({"svg.hashsalt": "selfheal", "font.size": 10, "axes.spines.top": False, "axes.spines.right": False})
    from matplotlib.figure import Figure

    titles = {}
    pictures: tuple[tuple[str, str, Callable[[Any, Runs], None]], ...] = (
        ("comparison", "Right before and after healing, with 95 % intervals", _comparison),
        ("cost", "Tasks solved and validated by the tokens they may cost", _cost),
        ("iterations", "Rounds until the code was accepted", _iterations),
    )
    for name, title, plot in pictures:
        figure = Figure(figsize=(7, 4), layout="constrained")
        axes = figure.add_subplot()
        plot(axes, runs)
        axes.set_title(title, loc="left", fontsize=11)
        if len(axes.get_legend_handles_labels()[1]) > 1:
            figure.legend(loc="outside lower center", ncols=2, frameon=False)
        for kind in ("png", "svg"):
            figure.savefig(folder / f"{name}.{kind}", dpi=144, metadata={"Date": None} if kind == "svg" else None)
        titles[name] = title
    return titles


def _comparison(axes: Any, runs: Runs) -> None:
    """A pair of bars for each configuration; if there is one, for each category."""
    rows = dict(runs)
    if len(runs) == 1:
        (entries,) = runs.values()
        groups = sorted({one.group for one in entries})
        if len(groups) > 1:
            rows = {group: [one for one in entries if one.group == group] for group in groups}
    width = 0.38
    for at, (label, color, is_right) in enumerate((("first answer", BASE, _base), ("healed", RIGHT, _right))):
        shares = [share_by_task([(task_of(one.id), is_right(one)) for one in entries]) for entries in rows.values()]
        rates = [each.count / max(1, each.of) for each in shares]
        errors = [
            [max(0.0, rate - each.low) for rate, each in zip(rates, shares, strict=True)],
            [max(0.0, each.high - rate) for rate, each in zip(rates, shares, strict=True)],
        ]
        places = [place + (at - 0.5) * width for place in range(len(rows))]
        axes.bar(places, rates, width, label=label, color=color, yerr=errors, capsize=3, ecolor="#334155")
    axes.set_xticks(range(len(rows)), [_short(name) for name in rows], rotation=20 if len(rows) > 3 else 0, ha="center")
    axes.set_ylim(0, 1.02)
    axes.yaxis.set_major_formatter("{x:.0%}")
    axes.set_ylabel("share of tasks, by held-out tests")


def _cost(axes: Any, runs: Runs) -> None:
    """For each limit of tokens per task, the share of the tasks that are right within it."""
    most = max((one.tokens for entries in runs.values() for one in entries), default=0) * 1.05
    for (name, entries), color in zip(runs.items(), LINES * len(runs), strict=False):
        spent = sorted(one.tokens for one in entries if _right(one))
        steps: list[tuple[float, float]] = [
            (0, 0.0),
            *((tokens, (at + 1) / max(1, len(entries))) for at, tokens in enumerate(spent)),
        ]
        steps.append((most, steps[-1][1]))
        axes.step([x for x, _ in steps], [y for _, y in steps], where="post", label=_short(name), color=color)
    axes.set_ylim(0, 1.02)
    axes.yaxis.set_major_formatter("{x:.0%}")
    axes.set_xlabel("tokens of a task")
    axes.set_ylabel("share of tasks")


def _iterations(axes: Any, runs: Runs) -> None:
    width = 0.8 / max(1, len(runs))
    highest = max((one.iterations for entries in runs.values() for one in entries), default=1)
    for at, ((name, entries), color) in enumerate(zip(runs.items(), LINES * len(runs), strict=False)):
        counts = Counter(one.iterations for one in entries if one.plausible)
        places = [rounds + (at - (len(runs) - 1) / 2) * width for rounds in range(highest + 1)]
        axes.bar(places, [counts[rounds] for rounds in range(highest + 1)], width, label=_short(name), color=color)
    axes.set_xticks(range(highest + 1))
    axes.yaxis.get_major_locator().set_params(integer=True)
    axes.set_xlabel("rounds")
    axes.set_ylabel("accepted tasks")


def _base(one: Entry) -> bool:
    return bool(one.details.get("base"))


def _right(one: Entry) -> bool:
    return one.plausible and one.heldout_correct is not False


def _short(name: str) -> str:
    return name if len(name) <= 28 else f"{name[:27]}…"
