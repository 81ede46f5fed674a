"""Patterns on values: constants, indices, bounds, slices, strings."""

from __future__ import annotations

import ast
import difflib
from collections import Counter
from collections.abc import Iterator
from itertools import islice

from agent.proposers.patterns.names import scope
from agent.proposers.patterns.operators import is_idle
from agent.proposers.patterns.source import FunctionNode, Rewrite, Source, is_compound, quoted

MAX_NODES = 20_000  # in which those are looked for
MAX_STRINGS = 6  # others of the same function or module that are tried in a string's place

# Short strings that are taken for each other.
LOOKALIKES = (
    ("(", "[", "{", "<"), (")", "]", "}", ">"), ("()", "[]", "{}", "<>"), ("-", "_", "–", "+", "*"), ("/", "\\", "//"),
    (",", ";", ", ", ":", "|", "."), (" ", "", "\t", "\n", "  "), ("\n", "\r\n", "\n\n"), ("'", '"', "`"), ("0", "1"),
    ("utf-8", "ascii", "latin-1", "utf-8-sig", "utf-16"), ("strict", "ignore", "replace"), ("r", "rb"), ("w", "wb", "a", "ab"),
    ("true", "True", "1"), ("false", "False", "0"),
)  # fmt: skip


def constants(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    if not isinstance(node, ast.Constant) or _is_documentation(source, node):
        return
    start, end = source.span(node)
    before = source.text[start:end]
    value = node.value
    if isinstance(value, bool) or value is None:
        others: tuple[tuple[str, float], ...] = (("False" if value else "True", 0.8 if value is not None else 0.3),)
        if value is None:
            others = (*others, ("False", 0.3), ("0", 0.3), ("''", 0.25), ("[]", 0.25))
        else:
            others = (*others, ("None", 0.3))
    elif isinstance(value, int) and before.isdigit() and len(before) < 20:
        others = tuple(
            (str(v), prior)
            for v, prior in ((value + 1, 0.9), (value - 1, 0.9), (1 - value, 0.5), (0, 0.5), (-value, 0.5), (value * 2, 0.3),
                             (value + 2, 0.25), (10, 0.2), (2, 0.35))
            if v != value
        )  # fmt: skip
        if value in (0, 1):
            others = (*others, ("None", 0.25))
    elif isinstance(value, float):
        others = tuple((repr(v), 0.5) for v in (value + 1, value - 1, -value, 1.0, 0.0) if v != value)
    elif isinstance(value, str) and before[:1] in "'\"" and before[:3] not in ("'''", '"""') and len(value) <= 60:
        yield from _strings(source, node, before)
        return
    else:
        return
    for text in dict.fromkeys(t for t, _ in others if not is_idle(source.parents[node], node, t)):
        prior = max(p for t, p in others if t == text)
        if text.startswith("-"):
            yield source.replaced(node, text, compound=True, title=quoted(before, text), prior=prior)
        else:
            yield Rewrite(start, end, text, quoted(before, text), prior)


def _is_documentation(source: Source, node: ast.Constant) -> bool:
    return isinstance(source.parents[node], ast.Expr | ast.JoinedStr | ast.FormattedValue)


def _strings(source: Source, node: ast.Constant, before: str) -> Iterator[Rewrite]:
    start, end = source.span(node)
    value = node.value
    assert isinstance(value, str)
    around: ast.AST = source.outermost_function(node) or source.tree
    quote = before[0]
    function = source.function(node)
    if function is not None and value in scope(source, function):
        for text, prior in ((value, 0.6), (f"{value}.encode()", 0.5), (f"str({value})", 0.35)):
            yield Rewrite(start, end, text, quoted(before, text), prior)
    for text in difflib.get_close_matches(value, source.words, 3, 0.7) if len(value) > 2 else ():
        if text != value:
            yield Rewrite(start, end, _spelled(text, quote), quoted(before, repr(text)), 0.5)
    for family in LOOKALIKES:
        if value in family:
            for rank, text in enumerate(t for t in family if t != value):
                yield Rewrite(start, end, _spelled(text, quote), quoted(before, repr(text)), 0.5 - 0.02 * rank)
    for text in [t for t in source.once(_frequent, around) if t != value][:MAX_STRINGS]:
        yield Rewrite(start, end, _spelled(text, quote), quoted(before, repr(text)), 0.45)
    variants = {
        value + " ": 0.25,
        value.strip(): 0.35,
        "": 0.35,
        value.lower(): 0.35,
        value.upper(): 0.35,
        value or " ": 0.4,
    }
    for text, prior in variants.items():
        if text != value:
            yield Rewrite(start, end, _spelled(text, quote), quoted(before, repr(text)), prior)


def _frequent(source: Source, around: ast.AST) -> list[str]:
    """The strings that are written most often there, of its first `MAX_NODES` nodes."""
    nodes = islice(ast.walk(around), MAX_NODES)
    found = Counter(
        n.value for n in nodes
        if isinstance(n, ast.Constant) and isinstance(n.value, str) and len(n.value) <= 60
        and n in source.parents and not _is_documentation(source, n)
    )  # fmt: skip
    return [text for text, _ in found.most_common(MAX_STRINGS + 1)]


def cased(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """All strings of a function that differ from what the tests expect only by case, changed together."""
    if not isinstance(node, FunctionNode) or not source.words:
        return
    expected: dict[str, str] = {}
    for word in source.words:
        expected.setdefault(word.casefold(), word)
    parts = []
    for each in source.inside(node):
        if isinstance(each, ast.Constant) and isinstance(each.value, str) and not _is_documentation(source, each):
            meant, before = expected.get(each.value.casefold()), source.segment(each)
            if (
                meant is not None
                and each.value not in source.words
                and before[:1] in "'\""
                and before[:3] not in ("'''", '"""')
            ):
                parts.append((*source.span(each), _spelled(meant, before[0])))
    if parts:
        after = ", ".join(text for _, _, text in parts)
        yield source.together(parts, f"strings are written as the tests expect them: {after[:60]}", 0.7)


def _spelled(text: str, quote: str) -> str:
    spelled = repr(text)
    if spelled[0] != quote and quote not in text and "\\" not in spelled:
        return quote + spelled[1:-1] + quote
    return spelled


def collections(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """An empty answer that should hold something; one element taken where all are meant."""
    function = source.function(node)
    if function is None or not isinstance(node, ast.expr):
        return
    before = source.segment(node)
    start, end = source.span(node)
    if isinstance(node, ast.List) and not node.elts and isinstance(node.ctx, ast.Load):
        names = scope(source, function)[:6]
        texts = ["[[]]", *(f"[{name}]" for name in names), "{}", "set()", "''", "None", "[0]", "()"]
        for rank, text in enumerate(texts):
            yield Rewrite(start, end, text, quoted(before, text), 0.45 - 0.02 * rank)
    elif isinstance(node, ast.Constant) and node.value == "" and before in ("''", '""'):
        yield Rewrite(start, end, "None", quoted(before, "None"), 0.3)
    elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) and not isinstance(node.slice, ast.Slice):
        whole = source.segment(node.value)
        if not is_compound(node.value) and source.segment(node.slice).lstrip("-").isdigit():
            for name in ("sum", "max", "min", "len"):
                text = f"{name}({whole})"
                yield Rewrite(start, end, text, quoted(before, text), 0.3)


def bounds(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """±1 around indices, slices' ends, arguments of range and of calls that count, and what is returned."""
    if isinstance(node, ast.Subscript):
        if isinstance(node.slice, ast.Slice):
            yield from _slice(source, node, node.slice)
        elif isinstance(node.slice, ast.Tuple):
            for element in node.slice.elts:
                if isinstance(element, ast.Name | ast.BinOp | ast.Attribute):
                    yield from _one_off(source, element, 0.5)
        elif not isinstance(node.slice, ast.Constant):
            yield from _one_off(source, node.slice, 0.75)
        elif isinstance(node.slice, ast.Constant) and node.slice.value == 0:
            start, end = source.span(node.slice)
            yield Rewrite(start, end, "-1", quoted(source.segment(node), f"{source.segment(node.value)}[-1]"), 0.75)
        if isinstance(node.slice, ast.UnaryOp) and source.segment(node.slice) == "-1":
            start, end = source.span(node.slice)
            yield Rewrite(start, end, "0", quoted(source.segment(node), f"{source.segment(node.value)}[0]"), 0.75)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range":
        yield from _range(source, node)
    elif isinstance(node, ast.Call):
        for argument in node.args:
            if isinstance(argument, ast.Name | ast.BinOp | ast.Attribute):
                yield from _one_off(source, argument, 0.35)
    elif isinstance(node, ast.Compare):
        for operand in (node.left, *node.comparators):
            if isinstance(operand, ast.Name | ast.BinOp | ast.Call | ast.Attribute):
                yield from _one_off(source, operand, 0.45)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.FloorDiv | ast.Mod | ast.Div | ast.Pow):
        for operand in (node.left, node.right):
            if isinstance(operand, ast.Name | ast.Call | ast.Attribute) and not source.segment(operand).startswith("range("):
                yield from _one_off(source, operand, 0.34)
    elif isinstance(node, ast.Return | ast.Assign) and isinstance(node.value, ast.Name | ast.BinOp | ast.Call | ast.Subscript):
        yield from _one_off(source, node.value, 0.5)


def _one_off(source: Source, node: ast.expr, prior: float) -> Iterator[Rewrite]:
    if isinstance(node, ast.BinOp) and isinstance(node.right, ast.Constant) and node.right.value in (1, 2):
        return  # the operators' and constants' patterns reach it
    before = source.segment(node)
    wrapped = f"({before})" if is_compound(node) and not isinstance(node, ast.BinOp) else before
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitAnd | ast.BitOr | ast.BitXor | ast.LShift | ast.RShift):
        wrapped = f"({before})"
    for text in (f"{wrapped} + 1", f"{wrapped} - 1"):
        yield source.replaced(node, text, compound=True, title=quoted(before, text), prior=prior)


def _range(source: Source, node: ast.Call) -> Iterator[Rewrite]:
    before = source.segment(node)
    for argument in node.args[:2]:
        yield from _one_off(source, argument, 0.8)
    parts = [source.segment(a) for a in node.args]
    name = source.segment(node.func)
    if len(parts) == 1:
        versions = [f"1, {parts[0]} + 1", f"1, {parts[0]}", f"{parts[0]} - 1, -1, -1"]
    elif len(parts) == 2:
        versions = [
            parts[1],
            f"{parts[0]} + 1, {parts[1]} + 1",
            f"{parts[0]} - 1, {parts[1]} - 1",
            f"{parts[0]}, {parts[1]}, 2",
        ]
    elif len(parts) == 3:
        versions = [f"{parts[0]}, {parts[1]}", f"{parts[0]}, {parts[1]}, -({parts[2]})"]
    else:
        return
    for text in versions:
        text = f"{name}({text})"
        yield source.replaced(node, text, compound=False, title=quoted(before, text), prior=0.6)


def _slice(source: Source, node: ast.Subscript, piece: ast.Slice) -> Iterator[Rewrite]:
    before, value = source.segment(node), source.segment(node.value)
    low, high, step = (source.segment(p) if p else "" for p in (piece.lower, piece.upper, piece.step))
    for bound in (piece.lower, piece.upper):
        if bound is not None and not isinstance(bound, ast.Constant):
            yield from _one_off(source, bound, 0.75)
    versions: list[tuple[str, str, str, float]] = []
    if low:
        versions += [("", high, step, 0.6), (high, low, step, 0.4) if high else ("", low, step, 0.55)]
    else:
        versions += [("1", high, step, 0.5), (high, "", step, 0.55) if high else ("", "-1", step, 0.45)]
    if high:
        versions += [(low, "", step, 0.6)]
    elif low:
        versions += [(low, "-1", step, 0.4)]
    versions += [(low, high, "", 0.6)] if step else [(low, high, "-1", 0.4), (low, high, "2", 0.3)]
    for a, b, c, prior in versions:
        text = f"{value}[{a}:{b}{':' + c if c else ''}]"
        if text != before:
            start, end = source.span(node)
            yield Rewrite(start, end, text, quoted(before, text), prior)
    if isinstance(source.parents[node], ast.expr | ast.Return | ast.Assign | ast.keyword) and isinstance(node.ctx, ast.Load):
        yield source.replaced(node, value, compound=False, title=quoted(before, value), prior=0.5)
