"""Patterns on values: constants, indices, bounds, slices, strings."""

from __future__ import annotations

import ast
import difflib
import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice, pairwise

from agent.proposers.patterns.names import kind_of, scope
from agent.proposers.patterns.operators import is_idle
from agent.proposers.patterns.source import FunctionNode, Rewrite, Source, is_compound, quoted

MAX_NODES = 20_000  # nodes that are searched for strings
MAX_STRINGS = 6  # strings of the same function or module that are tried in place of a string
LONGEST = 60  # characters of a string
SHORT = 3  # characters of a text between the values of a string
SIMPLE = re.compile(r"[fF]?(?P<quote>['\"])(?P<text>(?:(?!(?P=quote))[^\\\n])+)(?P=quote)")
VALUES = re.compile(r"%[-+ #0]*\d*(?:\.\d+)?[a-zA-Z]|\{[^{}]*\}")
ELSEWHERE = frozenset("'\"\\{}%")  # would end the text, or mean something else in it

# Numbers that are easily confused: units of time and of memory, and bases.
UNITS = ((60, 3600, 24, 86400, 1440), (24, 7), (1000, 1024, 100, 1_000_000), (255, 256, 127, 128), (8, 16, 10, 2), (12, 24))

# Short strings that are easily confused.
LOOKALIKES = (
    ("(", "[", "{", "<"), (")", "]", "}", ">"), ("()", "[]", "{}", "<>"), ("-", "_", "–", "+", "*"), ("/", "\\", "//"),
    (",", ";", ", ", ":", "|", "."), (" ", "", "\t", "\n", "  "), ("\n", "\r\n", "\n\n"), ("'", '"', "`"), ("0", "1"),
    ("utf-8", "ascii", "latin-1", "utf-8-sig", "utf-16"), ("strict", "ignore", "replace"), ("r", "rb"), ("w", "wb", "a", "ab"),
    ("true", "True", "1"), ("false", "False", "0"),
)  # fmt: skip


def constants(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    if not isinstance(node, ast.Constant) or _is_documentation(source, node):
        return
    before, value = source.segment(node), node.value
    if value is None:
        others = [("True", 0.3), ("False", 0.3), ("0", 0.3), ("''", 0.25), ("[]", 0.25)]
    elif isinstance(value, bool):
        others = [(str(not value), 0.8), ("None", 0.3)]
    elif isinstance(value, int) and before.isdigit() and len(before) < 20:
        below = 0.92 if value == 1 else 0.9  # people count from 0 or 1
        numbers = ((value + 1, 0.9), (value - 1, below), (1 - value, 0.5), (0, 0.5), (-value, 0.5), (value * 2, 0.3),
                   (value + 2, 0.25), (10, 0.2), (2, 0.35))  # fmt: skip
        others = [(str(other), prior) for other, prior in numbers if other != value]
        others += [(str(other), 0.4) for family in UNITS if value in family for other in family if other != value]
        others += [("None", 0.25)] if value in (0, 1) else []
    elif isinstance(value, float):
        others = [(repr(other), 0.5) for other in (value + 1, value - 1, -value, 1.0, 0.0) if other != value]
    elif isinstance(value, str) and _is_plain(before) and len(value) <= LONGEST:
        yield from _strings(source, node, value)
        return
    else:
        return
    for text in dict.fromkeys(t for t, _ in others if not is_idle(source.parents[node], node, t)):
        prior = max(p for t, p in others if t == text)
        yield source.replaced(node, text, prior, compound=text.startswith("-"))


def _is_documentation(source: Source, node: ast.expr) -> bool:
    return isinstance(source.parents[node], ast.Expr | ast.JoinedStr | ast.FormattedValue)


def _is_plain(literal: str) -> bool:
    """Is it a string without a prefix, on one line?"""
    return literal[:1] in "'\"" and literal[:3] not in ("'''", '"""')


def _strings(source: Source, node: ast.Constant, value: str) -> Iterator[Rewrite]:
    if value in scope(source, node):
        for text, prior in ((value, 0.6), (f"{value}.encode()", 0.5), (f"str({value})", 0.35)):
            yield source.replaced(node, text, prior)
    others = [(text, 0.5) for text in (difflib.get_close_matches(value, source.words, 3, 0.7) if len(value) > 2 else ())]
    for family in LOOKALIKES:
        if value in family:
            others += [(text, 0.5 - 0.02 * rank) for rank, text in enumerate(t for t in family if t != value)]
    around: ast.AST = source.outermost_function(node) or source.tree
    others += [(text, 0.45) for text in [t for t in source.once(_frequent, around) if t != value][:MAX_STRINGS]]
    variants = {value + " ": 0.25, value.strip(): 0.35, "": 0.35, value.lower(): 0.35, value.upper(): 0.35, value or " ": 0.4}
    before = source.segment(node)
    for text, prior in [*others, *variants.items()]:
        if text != value:
            yield source.replaced(node, _spelled(text, before[0]), prior, title=quoted(before, repr(text)))


def around_values(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """The text before, between or behind the values of a string: `f"{key}={value}"`, `"%s=%s"`, `"{}={}"`.

    Before Python 3.12, such texts have no place of their own in an f-string, so they are looked for in its source.
    """
    if not (isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))):
        return
    literal = source.segment(node)
    match = SIMPLE.fullmatch(literal)
    if match is None or len(literal) > LONGEST or _is_documentation(source, node):
        return
    start, end = match.span("text")
    values = [found.span() for found in VALUES.finditer(literal, start, end)]
    first, frequent = source.span(node)[0], source.once(_frequent, source.outermost_function(node) or source.tree)
    for left, right in pairwise([start, *(place for value in values for place in value), end]) if values else ():
        text = literal[left:right]
        if (left, right) in values or len(text) > SHORT or "{" in text or "}" in text or "%" in text:
            continue
        alike = [other for family in LOOKALIKES if text in family for other in family]
        others = [*alike, *(other for other in frequent if len(other) <= SHORT), text.strip(), text + " " if text else ""]
        for rank, other in enumerate(
            t for t in dict.fromkeys(others) if t != text and t.isprintable() and ELSEWHERE.isdisjoint(t)
        ):
            after = literal[:left] + other + literal[right:]
            prior = (0.45 if text else 0.3) - 0.02 * rank
            yield Rewrite(first + left, first + right, other, quoted(literal, after), prior)


def between(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """A short text that the function uses is missing between two that are joined: `scheme + host` → `scheme + "://" + host`."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Add) or (function := source.function(node)) is None:
        return
    kinds = {kind_of(source, function, side) for side in (node.left, node.right)}
    if kinds - {"", "text"} or any(isinstance(side, ast.Constant) for side in (node.left, node.right)):
        return
    at = source.span(node.right)[0]
    texts = [text for text in source.once(_frequent, function) if 0 < len(text) <= SHORT]
    for rank, text in enumerate(map(repr, texts)):
        if source.text[source.span(node.left)[1] : at].strip() == "+":
            title = quoted(source.segment(node), f"{source.segment(node.left)} + {text} + {source.segment(node.right)}")
            yield Rewrite(at, at, f"{text} + ", title, 0.36 - 0.02 * rank)


def _frequent(source: Source, around: ast.AST) -> list[str]:
    """The most frequent strings among the first `MAX_NODES` nodes."""
    nodes = islice(ast.walk(around), MAX_NODES)
    found = Counter(
        n.value for n in nodes
        if isinstance(n, ast.Constant) and isinstance(n.value, str) and len(n.value) <= LONGEST
        and n in source.parents and not _is_documentation(source, n)
    )  # fmt: skip
    return [text for text, _ in found.most_common(MAX_STRINGS + 1)]


def cased(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """All strings of a function that differ only in case from those in the tests, changed together."""
    if not isinstance(node, FunctionNode) or not source.words:
        return
    expected: dict[str, str] = {}
    for word in source.words:
        expected.setdefault(word.casefold(), word)
    parts = []
    for each in source.inside(node):
        if isinstance(each, ast.Constant) and isinstance(each.value, str) and not _is_documentation(source, each):
            meant, before = expected.get(each.value.casefold()), source.segment(each)
            if meant is not None and each.value not in source.words and _is_plain(before):
                parts.append((*source.span(each), _spelled(meant, before[0])))
    if parts:
        after = ", ".join(text for _, _, text in parts)
        yield source.together(parts, f"strings get the case that the tests expect: {after[:60]}", 0.7)


def _spelled(text: str, quote: str) -> str:
    spelled = repr(text)
    if spelled[0] != quote and quote not in text and "\\" not in spelled:
        return quote + spelled[1:-1] + quote
    return spelled


def collections(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """An empty value should hold something; one element is used where all are meant."""
    if source.function(node) is None or not isinstance(node, ast.expr):
        return
    if isinstance(node, ast.List) and not node.elts and isinstance(node.ctx, ast.Load):
        texts = ["[[]]", *(f"[{name}]" for name in scope(source, node)[:6]), "{}", "set()", "''", "None", "[0]", "()"]
        for rank, text in enumerate(texts):
            yield source.replaced(node, text, 0.45 - 0.02 * rank)
    elif isinstance(node, ast.Constant) and source.segment(node) in ("''", '""'):
        yield source.replaced(node, "None", 0.3)
    elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) and not is_compound(node.value):
        is_number = source.segment(node.slice).lstrip("-").isdigit()
        for name in ("sum", "max", "min", "len") if is_number else ():
            yield source.replaced(node, f"{name}({source.segment(node.value)})", 0.3)


def bounds(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """Off by one: indices, slice bounds, arguments, operands, and assigned or returned values."""
    near: list[ast.expr] = []
    kinds, prior = ast.Name | ast.BinOp | ast.Attribute, 0.5
    match node:
        case ast.Subscript(slice=ast.Slice() as piece):
            yield from _slice(source, node, piece)
        case ast.Subscript(slice=ast.Tuple(elts=near)):
            pass
        case ast.Subscript(value=value, slice=index):
            if not isinstance(index, ast.Constant):
                yield from _one_off(source, index, 0.75)
            other = "-1" if isinstance(index, ast.Constant) and index.value == 0 else "0"
            if other == "-1" or (isinstance(index, ast.UnaryOp) and source.segment(index) == "-1"):
                title = quoted(source.segment(node), f"{source.segment(value)}[{other}]")
                yield source.replaced(index, other, 0.75, title=title)
        case ast.Call(func=ast.Name(id="range")):
            yield from _range(source, node)
        case ast.Call(args=near):
            prior = 0.35
        case ast.List(elts=near) | ast.Tuple(elts=near) if isinstance(node.ctx, ast.Load):
            kinds, prior = ast.Name | ast.Attribute, 0.33
        case ast.Compare(left=left, comparators=others):
            near, kinds, prior = [left, *others], kinds | ast.Call, 0.45
        case ast.BinOp(op=ast.Mult() | ast.FloorDiv() | ast.Mod() | ast.Div() | ast.Pow(), left=left, right=right):
            near, kinds, prior = [left, right], ast.Name | ast.Call | ast.Attribute, 0.34
            near = [operand for operand in near if not source.segment(operand).startswith("range(")]
        case ast.Return(value=ast.expr() as value) | ast.Assign(value=value):
            near, kinds = [value], ast.Name | ast.BinOp | ast.Call | ast.Subscript
    for each in near:
        if isinstance(each, kinds):
            yield from _one_off(source, each, prior)


def _one_off(source: Source, node: ast.expr, prior: float) -> Iterator[Rewrite]:
    binds_less = is_compound(node)
    if isinstance(node, ast.BinOp):
        if isinstance(node.right, ast.Constant) and node.right.value in (1, 2):
            return  # the patterns on operators and constants cover it
        binds_less = isinstance(node.op, ast.BitAnd | ast.BitOr | ast.BitXor | ast.LShift | ast.RShift)
    before = source.segment(node)
    base = f"({before})" if binds_less else before
    for text in (f"{base} + 1", f"{base} - 1"):
        yield source.replaced(node, text, prior, compound=True)


def _range(source: Source, node: ast.Call) -> Iterator[Rewrite]:
    for argument in node.args[:2]:
        yield from _one_off(source, argument, 0.8)
    match [source.segment(a) for a in node.args]:
        case [end]:
            versions = [f"1, {end} + 1", f"1, {end}", f"{end} - 1, -1, -1"]
        case [start, end]:
            versions = [end, f"{start} + 1, {end} + 1", f"{start} - 1, {end} - 1", f"{start}, {end}, 2"]
        case [start, end, step]:
            versions = [f"{start}, {end}", f"{start}, {end}, -({step})"]
        case _:
            return
    for version in versions:
        yield source.replaced(node, f"{source.segment(node.func)}({version})", 0.6)


def _slice(source: Source, node: ast.Subscript, piece: ast.Slice) -> Iterator[Rewrite]:
    before, value = source.segment(node), source.segment(node.value)
    low, high, step = (source.segment(p) if p else "" for p in (piece.lower, piece.upper, piece.step))
    for bound in (piece.lower, piece.upper):
        if bound is not None and not isinstance(bound, ast.Constant):
            yield from _one_off(source, bound, 0.75)
    versions: list[tuple[str, str, str, float]] = []
    if low:
        versions += [("", high, step, 0.6), (high, low, step, 0.4)] if high else [("", "", step, 0.35), ("", low, step, 0.55)]
    else:
        versions += [("1", high, step, 0.5), (high, "", step, 0.55) if high else ("", "-1", step, 0.45)]
    # As many items from the other end.
    if not (low and high) and isinstance(piece.lower or piece.upper, ast.Name | ast.Call | ast.Attribute):
        versions.append(("", f"-{low}", step, 0.45) if low else (f"-{high}", "", step, 0.45))
    if high:
        versions += [(low, "", step, 0.6 if low else 0.35)]
    elif low:
        versions += [(low, "-1", step, 0.4)]
    versions += [(low, high, "", 0.6)] if step else [(low, high, "-1", 0.4), (low, high, "2", 0.3)]
    for a, b, c, prior in versions:
        text = f"{value}[{a}:{b}{':' + c if c else ''}]"
        if text != before:
            yield source.replaced(node, text, prior)
    if isinstance(source.parents[node], ast.expr | ast.Return | ast.Assign | ast.keyword) and isinstance(node.ctx, ast.Load):
        yield source.replaced(node, value, 0.5)
