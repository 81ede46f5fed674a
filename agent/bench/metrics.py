"""What is measured of written code beside its correctness. Other packages add metrics by entry points (docs/extending.md).

Cyclomatic complexity (T. McCabe, 1976) is lizard's, from the extra `bench`. Coverage is measured when the code is
judged, because only then it runs.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from agent.bench.score import Entry
from agent.contract import extension
from agent.source import syntax

DEFINED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@dataclass(frozen=True, slots=True)
class Metric:
    """A number about one task's result. `measure` returns None if the metric does not apply."""

    name: str
    text: str  # what it means, a clause
    measure: Callable[[Entry], float | None]


def built_in() -> tuple[Metric, ...]:
    return (
        Metric("complexity", "mean cyclomatic complexity of the functions", _complexity),
        Metric("lines", "lines of code, without blank ones, comments and docstrings", _lines),
        Metric("documented", "share of functions and classes with a docstring", _documented),
        Metric("coverage", "share of the code's lines that the reference tests run", _coverage),
    )


def installed() -> tuple[Metric, ...]:
    """The built-in metrics, and those that other packages add. Raises `agent.contract.extension.BrokenExtension`."""
    own = built_in()
    names = {metric.name for metric in own}
    added = []
    for point, factory in extension.installed(extension.METRICS).values():
        try:
            made = factory()
        except Exception as error:  # an extension can raise anything
            raise extension.broken(point, f"{type(error).__name__}: {error}") from error
        if not isinstance(made, Metric) or made.name in names:
            raise extension.broken(point, "it is not an `agent.bench.metrics.Metric` with a name of its own")
        added.append(replace(made, measure=_contained(made)))
        names.add(made.name)
    return (*own, *added)


def _contained(metric: Metric) -> Callable[[Entry], float | None]:
    """An extension's metric does not apply where it fails."""

    def measure(entry: Entry) -> float | None:
        try:
            return metric.measure(entry)
        except Exception:  # noqa: BLE001 - an extension can raise anything
            return None

    return measure


def measured(entries: Sequence[Entry], metrics: Sequence[Metric]) -> dict[str, dict[str, float]]:
    """For each task with an answer, the metrics that apply, by the task's id."""
    found = {}
    for entry in entries:
        if entry.details.get("code"):
            values = {metric.name: metric.measure(entry) for metric in metrics}
            found[entry.id] = {name: round(float(value), 4) for name, value in values.items() if value is not None}
    return found


def means(values: dict[str, dict[str, float]], metrics: Sequence[Metric]) -> dict[str, float]:
    """The mean of each metric over the tasks that it applies to."""
    by_name = {metric.name: [each[metric.name] for each in values.values() if metric.name in each] for metric in metrics}
    return {name: round(fmean(each), 4) for name, each in by_name.items() if each}


def _complexity(entry: Entry) -> float | None:
    try:
        import lizard
    except ImportError:
        return None
    found = [
        function.cyclomatic_complexity
        for path, text in _code(entry).items()
        for function in lizard.analyze_file.analyze_source_code(path, text).function_list
    ]
    return fmean(found) if found else None


def _lines(entry: Entry) -> float | None:
    trees = [tree for text in _code(entry).values() if (tree := _parsed(text)) is not None]
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, (ast.Module, *DEFINED)) and ast.get_docstring(node, clean=False) is not None:
                node.body = node.body[1:] or [ast.Pass()]
    return float(sum(bool(line.strip()) for tree in trees for line in ast.unparse(tree).split("\n"))) if trees else None


def _documented(entry: Entry) -> float | None:
    trees = [tree for text in _code(entry).values() if (tree := _parsed(text)) is not None]
    nodes = [node for tree in trees for node in ast.walk(tree) if isinstance(node, DEFINED)]
    return sum(ast.get_docstring(node) is not None for node in nodes) / len(nodes) if nodes else None


def _coverage(entry: Entry) -> float | None:
    share = entry.details.get("coverage")
    return float(share) if isinstance(share, int | float) else None


def _code(entry: Entry) -> dict[str, str]:
    return {path: text for path, text in entry.details["code"].items() if path.endswith(".py")}


def _parsed(text: str) -> ast.Module | None:
    try:
        return syntax.tree(text)
    except (SyntaxError, ValueError, RecursionError):
        return None
