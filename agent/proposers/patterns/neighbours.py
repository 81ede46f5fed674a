"""Lists mutations of a change itself: if they pass the same tests, the tests do not decide what it should be. Runs nothing.

The idea is mutation testing (DeMillo, Lipton, Sayward, 1978), applied to the lines of a patch only.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from agent.contract.proposal import FileChange
from agent.edits.changes import changed_ranges, lines
from agent.proposers.patterns import names, operators, values
from agent.proposers.patterns.generate import Change, Pattern
from agent.proposers.patterns.natural import naturally
from agent.proposers.patterns.source import FunctionNode, Rewrite, Source, Unreadable

MOST = 40  # of one change
LIKELY = 0.35  # nobody means a less likely operator: `is` for `==`, `|` for `+`, or `not` before what is returned
PATTERNS: tuple[Pattern, ...] = (
    operators.comparisons,
    operators.arithmetic,
    operators.logic,
    values.constants,
    names.variables,
    names.attributes,
)

_OF_OPERATORS = (operators.comparisons, operators.arithmetic, operators.logic)


def neighbours(change: FileChange) -> list[Change]:
    """The likeliest natural mutations of what the change wrote, each as a change of the file before it."""
    before, after = change.before, change.after
    if before is None or after is None:
        return []
    try:
        old, new = Source.read(change.path, before), Source.read(change.path, after)
    except (Unreadable, RecursionError, MemoryError):
        return []
    written = list(_written(change))
    found: dict[str, Change] = {}
    for node in new.parents:
        for rewrite, title in _of_node(new, node, written):
            text = rewrite.apply(after)
            if text not in (before, after) and text not in found:
                found[text] = _as_change(old, text, title, rewrite.prior, after.count("\n", 0, rewrite.start) + 1)
    return sorted(found.values(), key=lambda each: -each.score)[:MOST]


def _of_node(source: Source, node: ast.AST, written: list[tuple[int, int]]) -> Iterator[tuple[Rewrite, str]]:
    if not isinstance(node, ast.expr | ast.stmt) or not any(_overlap(source.span(node), span) for span in written):
        return
    is_natural = naturally(source, node, may_forget=True)
    for pattern in PATTERNS:
        for rewrite in pattern(source, node):
            is_written = any(_overlap((rewrite.start, rewrite.end), span) for span in written)
            is_meant = pattern not in _OF_OPERATORS or rewrite.prior >= LIKELY
            if is_written and is_meant and _is_of_one_kind(node, rewrite) and is_natural(rewrite):
                yield rewrite, rewrite.title


def _is_of_one_kind(node: ast.AST, rewrite: Rewrite) -> bool:
    """Whether a constant stays a number, a truth value, None or a text: nobody wonders whether `False` should be `None`."""
    if not isinstance(node, ast.Constant):
        return True
    try:
        return type(ast.literal_eval(rewrite.text)) is type(node.value)
    except (ValueError, SyntaxError):
        return True


def _overlap(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def _written(change: FileChange) -> Iterator[tuple[int, int]]:
    """The characters of the new text that the change wrote: (start, end) of each run of changed lines, without what its lines
    have in common with the old ones at both ends."""
    old, new = lines(change.before or ""), lines(change.after or "")
    starts = [0]
    for line in new:
        starts.append(starts[-1] + len(line))
    for first, last, start, end in changed_ranges(change):
        one, other = "".join(old[first:last]), "".join(new[start:end])
        head, tail = _common(one, other)
        if head + tail < len(other):
            yield starts[start] + head, starts[end] - tail


def _common(one: str, other: str) -> tuple[int, int]:
    """The number of equal characters at the start and, after these, at the end."""
    most = min(len(one), len(other))
    head = next((at for at in range(most) if one[at] != other[at]), most)
    tail = next((at for at in range(most - head) if one[-1 - at] != other[-1 - at]), most - head)
    return head, tail


def _as_change(old: Source, text: str, title: str, prior: float, line: int) -> Change:
    """The new text as one change of the old one; it is swapped in if it lies in the body of one function. `line` is where the
    mutation stands in the changed file."""
    head, tail = _common(old.text, text)
    start, end = head, len(old.text) - tail
    rewrite = Rewrite(start, end, text[head : len(text) - tail], title, prior)
    around = [
        node
        for node in old.parents
        if isinstance(node, FunctionNode) and _offset(old, node.body[0]) <= start and end <= old.span(node)[1]
    ]
    outermost = max(around, key=lambda node: old.span(node)[1] - old.span(node)[0], default=None)
    return Change(old.path, rewrite, prior, outermost.lineno if outermost is not None else 0, line, "")


def _offset(source: Source, node: ast.stmt) -> int:
    return source.offset(node.lineno, 0)
