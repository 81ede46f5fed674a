"""Lists mutations of suspicious code, likeliest first. Runs nothing and does not use the sandbox.

score = prior of the pattern × (0.15 + 0.85 × suspiciousness of the line).
"""

from __future__ import annotations

import ast
import math
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from agent.contract.proposal import Span
from agent.proposers.patterns import (
    calls,
    conditions,
    counterparts,
    forgotten,
    missing,
    names,
    operators,
    ordering,
    resets,
    siblings,
    statements,
    terms,
    values,
)
from agent.proposers.patterns.natural import naturally
from agent.proposers.patterns.source import FunctionNode, Rewrite, Source, Unreadable, called_name, has_place, names_in
from agent.source.outline import parse

Pattern = Callable[[Source, ast.AST], Iterator[Rewrite]]

PATTERNS: tuple[Pattern, ...] = (
    operators.comparisons,
    operators.arithmetic,
    operators.logic,
    values.constants,
    values.around_values,
    values.between,
    values.bounds,
    values.cased,
    terms.shortened,
    terms.rebound,
    terms.in_step,
    terms.scaled,
    terms.repeated,
    terms.indices,
    terms.sides,
    terms.turned,
    terms.shifted,
    calls.families,
    calls.renamed,
    calls.arguments,
    calls.defaulted,
    calls.chosen,
    calls.uncalled,
    calls.mirrored,
    calls.chained,
    calls.bracketed,
    calls.interpolated,
    calls.paired,
    ordering.keys,
    ordering.in_order,
    names.variables,
    names.forgotten,
    names.attributes,
    calls.wrapping,
    names.expressions,
    names.sliced,
    names.bounded,
    names.offset,
    values.collections,
    statements.dropped,
    statements.flow,
    statements.moved,
    statements.repeated,
    statements.alternatives,
    statements.guards,
    statements.answers,
    statements.conditions,
    conditions.alike,
    conditions.guarded,
    conditions.strengthened,
    conditions.widened,
    conditions.bounded,
    conditions.answered,
    conditions.handlers,
    missing.progress,
    missing.updates,
    missing.filling,
    missing.donors,
    missing.running,
    resets.loops,
    resets.attributes,
    resets.branches,
    missing.early_exits,
    missing.arguments_taken_raw,
    missing.mutable_defaults,
    forgotten.keywords,
    forgotten.inherited,
    forgotten.conditions,
    forgotten.delegated,
    siblings.keys,
    siblings.types,
    siblings.exceptions,
    siblings.guards,
    siblings.returned,
    counterparts.sides,
    counterparts.unread,
    counterparts.state,
    counterparts.awaited,
)
FRESH_IMPORT = 0.7  # factor: each trial of a change outside function bodies needs a fresh import
WORDS = 500  # strings taken from tests
RAISING = ("raises", "assertRaises", "assertRaisesRegex")
OUTSIDE = 0.1  # suspiciousness of untraced code at module or class level
LISTED = 0.7  # share of the time for listing changes; the rest is for leaving out those that nobody would write
WALL = 2.0  # factor on the CPU time
TOO_LATE = "the time ran out"
READ = 0.8  # share of the readers' suspiciousness that an assignment at module or class level gets


@dataclass(frozen=True, slots=True)
class Change:
    """One mutation of one file. `function_line` is the line of the outermost function's `def`, or 0 outside functions."""

    path: str
    rewrite: Rewrite
    score: float
    function_line: int
    line: int
    function: str

    @property
    def title(self) -> str:
        where = f" in `{self.function}`" if self.function else ""
        return f"{' '.join(self.rewrite.title.split())}{where} ({self.path}:{self.line})"


class Patience:
    """Seconds of this thread's CPU time, so that a busy machine does as much as a quiet one; at most `WALL` times as long."""

    def __init__(self, seconds: float) -> None:
        self._cpu, self._wall = time.thread_time() + seconds, time.monotonic() + WALL * seconds

    def ended(self) -> bool:
        return time.thread_time() >= self._cpu or time.monotonic() >= self._wall


@dataclass(frozen=True, slots=True)
class _Location:
    """A node to try patterns on. `function_line` is the line of the swapped function's `def`, or 0."""

    weight: float
    function_line: int
    line: int
    node: ast.AST
    source: Source


def changes(
    texts: Mapping[str, str],
    suspects: Sequence[Span],
    limit: int,
    words: tuple[str, ...] = (),
    seconds: float = math.inf,
    lost: tuple[str, ...] = (),
) -> tuple[list[Change], dict[str, str]]:
    """At most `limit` natural changes, best first, and the skipped files with the reason. CPU-bound: call it in a thread.

    `words` are the strings in the failing tests: a string almost equal to one of them may be a typo. `lost`: methods that the
    failures show to be missing. After `seconds` of CPU time (or `WALL` times as much wall time), the least suspicious lines
    are left out.
    """
    skipped: dict[str, str] = {}
    locations: list[_Location] = []
    patience = Patience(seconds * LISTED)
    for path, text in texts.items():
        if patience.ended():
            skipped[path] = TOO_LATE
            continue
        try:
            source = Source.read(path, text, words, lost)
            locations += _locations(source, [s for s in suspects if s.path == path])
        except Unreadable as why:
            skipped[path] = str(why)
        except (RecursionError, MemoryError) as error:
            skipped[path] = f"it caused {type(error).__name__}"
    found: list[tuple[Change, Callable[[], bool]]] = []
    seen: set[tuple[str, int, int, str]] = set()
    left_out: set[str] = set()
    for location in sorted(locations, key=lambda each: -each.weight):
        path = location.source.path
        if path in skipped:
            continue
        if patience.ended():
            left_out.add(path)
            continue
        try:
            found += _at(location, seen)
        except (RecursionError, MemoryError) as error:
            skipped[path] = f"it caused {type(error).__name__}"
    skipped |= dict.fromkeys(left_out - {change.path for change, _ in found}, TOO_LATE)
    kept: list[Change] = []
    patience = Patience(seconds * (1 - LISTED))
    for change, is_natural in sorted(found, key=lambda each: -each[0].score):
        if len(kept) == limit or patience.ended():
            break
        if is_natural():
            kept.append(change)
    return kept, skipped


def _at(location: _Location, seen: set[tuple[str, int, int, str]]) -> Iterator[tuple[Change, Callable[[], bool]]]:
    """The changes, each with the question whether somebody could have written it, which takes longer than to list it."""
    source, node = location.source, location.node
    is_natural, function = naturally(source, node), source.qualified_name(node)
    for pattern in PATTERNS:
        for rewrite in pattern(source, node):
            key = (source.path, rewrite.start, rewrite.end, rewrite.text)
            if key in seen or source.text[rewrite.start : rewrite.end] == rewrite.text:
                continue
            seen.add(key)
            score = rewrite.prior * location.weight
            change = Change(source.path, rewrite, score, location.function_line, location.line, function)
            yield change, partial(is_natural, rewrite)


def _locations(source: Source, spans: Sequence[Span]) -> Iterator[_Location]:
    suspicion: dict[int, float] = {}
    for span in spans:
        for line in range(span.first_line, span.last_line + 1):
            suspicion[line] = max(suspicion.get(line, 0.0), min(1.0, max(0.0, span.score)))
    uses = _uses(source, suspicion)
    for node in source.parents:
        around = [node, *source.above(node)]
        anchor = _anchor(node)
        if anchor is None or _is_ignored(source, around):
            continue
        function = source.outermost_function(node)
        part = next((child for child, parent in pairwise(around) if parent is function), node)  # of the function
        inside = function is not None and (part is function or part in function.body)
        seen_as = anchor if inside or function is None else function  # defaults run at import, so their function's lines count
        lines = range(seen_as.lineno, (seen_as.end_lineno or seen_as.lineno) + 1)
        here = max((suspicion.get(line, -1.0) for line in lines), default=-1.0)
        if here < 0:
            if function is not None:
                continue
            here = max([OUTSIDE, *(READ * uses[name] for name in _bound(around) if name in uses)])
        swapped = function if function is not None and (inside or part is function.args) else None
        weight = (0.15 + 0.85 * here) * (1.0 if swapped else FRESH_IMPORT)
        yield _Location(weight, swapped.lineno if swapped else 0, anchor.lineno, node, source)


def _uses(source: Source, suspicion: Mapping[int, float]) -> dict[str, float]:
    """Suspiciousness of the lines that read each name or attribute."""
    found: dict[str, float] = {}
    for node in source.parents:
        name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else None
        if name is not None and isinstance(node, ast.expr) and node.lineno in suspicion:
            found[name] = max(found.get(name, 0.0), suspicion[node.lineno])
    return found


def _bound(around: Sequence[ast.AST]) -> list[str]:
    """Names bound by the innermost assignment around a node at module or class level."""
    for each in around:
        if isinstance(each, ast.Assign | ast.AnnAssign):
            targets = each.targets if isinstance(each, ast.Assign) else [each.target]
            return [name for target in targets for name in names_in(target)]
    return []


def _anchor(node: ast.AST) -> ast.expr | ast.stmt | None:
    """The node whose lines decide the suspiciousness; None if patterns ignore this one. An `if` or a loop counts only by its
    condition or iterable; otherwise it would be as suspicious as its worst line."""
    if isinstance(node, ast.comprehension):
        return node.target
    if isinstance(node, ast.stmt) and not isinstance(node, FunctionNode):
        return getattr(node, "test", None) or getattr(node, "iter", None) or node
    return node if isinstance(node, ast.expr | ast.stmt) else None


def _is_ignored(source: Source, around: Sequence[ast.AST]) -> bool:
    """Annotations have no effect. The texts in f-strings have no positions of their own."""
    if isinstance(around[0], ast.FormattedValue):
        return True
    for child, parent in pairwise(around):
        if isinstance(parent, ast.JoinedStr) and not isinstance(child, ast.FormattedValue):
            return True
        if isinstance(parent, ast.FormattedValue) and child is parent.value and not source.once(has_place, parent.value):
            return True
        if child in (getattr(parent, "annotation", 0), getattr(parent, "returns", 0)):
            return True
        if isinstance(parent, ast.stmt):
            return False
    return False


def still_parses(before: str, after: str) -> bool:
    """Do both texts parse, and to different trees?"""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        one, other = (parse(text.removeprefix("\ufeff")) for text in (before, after))
    try:
        return one is not None and other is not None and ast.dump(one) != ast.dump(other)
    except RecursionError:
        return False


def words(tests: Iterable[str]) -> tuple[str, ...]:
    """The names of the exceptions that these tests expect, and their string literals."""
    trees = [tree for text in tests if (tree := parse(text.removeprefix("\ufeff"))) is not None]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    expected = [node.args[0] for node in nodes if isinstance(node, ast.Call) and called_name(node) in RAISING and node.args]
    named = [each for part in expected for each in ast.walk(part) if isinstance(each, ast.Name | ast.Attribute)]
    names = [each.id if isinstance(each, ast.Name) else each.attr for each in named]
    constants = [node.value for node in nodes if isinstance(node, ast.Constant)]
    texts = [value for value in constants if isinstance(value, str) and 0 < len(value) <= 60]
    return tuple(dict.fromkeys([*names, *texts]))[:WORDS]
