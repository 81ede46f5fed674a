"""Patterns on operators: comparisons, arithmetic, boolean logic, negation. They use only the syntax tree."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from agent.proposers.patterns.source import Rewrite, Source, is_compound, plain, quoted

COMPARE: dict[type[ast.cmpop], tuple[str, tuple[tuple[str, float], ...]]] = {
    ast.Lt: ("<", (("<=", 1.0), (">", 0.9), (">=", 0.8), ("!=", 0.5), ("==", 0.4))),
    ast.LtE: ("<=", (("<", 1.0), (">=", 0.9), (">", 0.8), ("==", 0.4))),
    ast.Gt: (">", ((">=", 1.0), ("<", 0.9), ("<=", 0.8), ("!=", 0.5), ("==", 0.4))),
    ast.GtE: (">=", ((">", 1.0), ("<=", 0.9), ("<", 0.8), ("==", 0.4))),
    # These rank above a change of the constant: `== 0` should more often be `< 0` than `== -1`.
    ast.Eq: ("==", (("!=", 0.95), ("<=", 0.93), (">=", 0.93), ("<", 0.92), (">", 0.92), ("is", 0.3), ("in", 0.3))),
    ast.NotEq: ("!=", (("==", 0.9), ("<", 0.36), (">", 0.33), ("not in", 0.3))),
    ast.Is: ("is", (("is not", 0.9), ("==", 0.6))),
    ast.IsNot: ("is not", (("is", 0.9), ("!=", 0.6))),
    ast.In: ("in", (("not in", 0.9), ("==", 0.4))),
    ast.NotIn: ("not in", (("in", 0.9), ("!=", 0.4))),
}
ARITHMETIC: dict[type[ast.operator], tuple[str, tuple[tuple[str, float], ...]]] = {
    ast.Add: ("+", (("-", 0.95), ("*", 0.7), ("%", 0.3), ("|", 0.3), ("//", 0.3))),
    ast.Sub: ("-", (("+", 0.95), ("*", 0.4), ("//", 0.4), ("%", 0.4), ("/", 0.4))),
    ast.Mult: ("*", (("+", 0.8), ("/", 0.7), ("**", 0.7), ("//", 0.7), ("-", 0.4), ("%", 0.3))),
    ast.Div: ("/", (("//", 0.95), ("*", 0.8), ("%", 0.6), ("-", 0.3))),
    ast.FloorDiv: ("//", (("/", 0.9), ("%", 0.9), ("*", 0.5), ("-", 0.3))),
    ast.Mod: ("%", (("//", 0.9), ("/", 0.8), ("*", 0.4), ("-", 0.4))),
    ast.Pow: ("**", (("*", 0.9), ("//", 0.3))),
    ast.BitAnd: ("&", (("|", 0.95), ("^", 0.8), ("and", 0.3))),
    ast.BitOr: ("|", (("&", 0.95), ("^", 0.8), ("+", 0.3))),
    ast.BitXor: ("^", (("&", 0.95), ("|", 0.9), ("**", 0.5))),
    ast.LShift: ("<<", ((">>", 0.95),)),
    ast.RShift: (">>", (("<<", 0.95),)),
}
BINDING = {"**": 9, "*": 8, "/": 8, "//": 8, "%": 8, "+": 7, "-": 7, "<<": 6, ">>": 6, "&": 5, "^": 4, "|": 3, "and": 1}
IDLE = {"+": 0, "-": 0, "*": 1, "**": 1}  # the right operands that have no effect
_COMMENT = re.compile(r"#[^\r\n]*")


def token(source: Source, start: int, end: int, spelling: str) -> tuple[int, int] | None:
    """The position of an operator between two operands; comments between them are ignored."""
    gap = _COMMENT.sub(lambda m: " " * len(m[0]), source.text[start:end])
    words = r"\s+".join(map(re.escape, spelling.split()))
    edge = r"\b" if spelling[0].isalpha() else ""
    found = re.search(edge + words + edge, gap)
    return (start + found.start(), start + found.end()) if found else None


def comparisons(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    if not isinstance(node, ast.Compare):
        return
    operands, function = [node.left, *node.comparators], source.function(node)
    is_equality = function is not None and function.name in ("__eq__", "__ne__")
    for left, op, right in zip(operands, node.ops, operands[1:], strict=False):
        before, others = COMPARE[type(op)]
        place = token(source, source.span(left)[1], source.span(right)[0], before)
        if place is None:
            continue
        for after, prior in others:
            if is_equality and before in ("==", "!=") and after in ("<", "<=", ">", ">="):
                continue  # what is equal is not greater
            if after in ("==", "!=") and before.startswith("is") and isinstance(right, ast.Constant) and right.value is None:
                prior *= 0.3  # it is hardly ever meant, and hardly ever makes a difference
            shown = (f"{source.segment(left)} {o} {source.segment(right)}" for o in (before, after))
            yield Rewrite(*place, after, quoted(*shown), prior)
    if len(node.ops) == 1 and isinstance(node.ops[0], ast.Lt | ast.LtE | ast.Gt | ast.GtE | ast.In | ast.NotIn):
        yield from _exchanged(source, node, node.left, node.comparators[0], 0.35)


def arithmetic(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    if isinstance(node, ast.BinOp):
        before, others = ARITHMETIC.get(type(node.op), ("", ()))
        place = token(source, source.span(node.left)[1], source.span(node.right)[0], before) if before else None
        if place is None:
            return
        for after, prior in others:
            if isinstance(node.right, ast.Constant) and after in IDLE and node.right.value == IDLE[after]:
                continue  # dropping the term is the simpler change
            if isinstance(node.left, ast.Constant) and isinstance(node.left.value, str):
                prior *= 0.3  # string formatting or concatenation
            yield _operator(source, node, place, before, after, prior)
        if isinstance(node.op, ast.Sub | ast.Div | ast.FloorDiv | ast.Mod | ast.Pow | ast.Add):
            yield from _exchanged(source, node, node.left, node.right, 0.5 if not isinstance(node.op, ast.Add) else 0.25)
        for kept, dropped in ((node.left, node.right), (node.right, node.left)):
            title = f"`{source.segment(dropped)[:40]}` is dropped from `{source.segment(node)[:60]}`"
            yield source.replaced(node, source.segment(kept), 0.65, title=title, compound=is_compound(kept))
    elif isinstance(node, ast.AugAssign):
        before, others = ARITHMETIC.get(type(node.op), ("", ()))
        start, end = source.span(node.target)[1], source.span(node.value)[0]
        place = token(source, start, end, before + "=") if before else None
        for after, prior in (*others, ("", 0.6)):
            if place is not None and after != "and":
                title = quoted(source.segment(node), source.segment(node.target) + f" {after}= …")
                yield Rewrite(*place, after + "=", title, prior)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.Invert):
        yield source.replaced(node, source.segment(node.operand), 0.8, compound=is_compound(node.operand))


def is_idle(parent: ast.AST, node: ast.expr, text: str) -> bool:
    """Would this number have no effect in place of the node, as in `x - 0`? Dropping the term is a change of its own."""
    sign = ARITHMETIC.get(type(parent.op), ("", ()))[0] if isinstance(parent, ast.BinOp) else ""
    if sign not in IDLE or (node is getattr(parent, "left", None) and sign not in ("+", "*")):
        return False
    return text in (f"{IDLE[sign]}", f"{IDLE[sign]}.0")


def _operator(source: Source, node: ast.BinOp, place: tuple[int, int], before: str, after: str, prior: float) -> Rewrite:
    """Another operator between the same operands, with parentheses only if the precedence changes."""
    start, end = source.span(node)
    right, right_end = source.span(node.right)
    tail = source.text[place[1] : end]
    if BINDING[after] >= _binding(node.right) and source.text[place[1] : right].strip() == "":
        tail = source.text[place[1] : right] + f"({source.text[right:right_end]})" + source.text[right_end:end]
    head = source.text[start : place[0]]
    if BINDING[after] > _binding(node.left) and not head.lstrip().startswith("("):
        a, b = source.span(node.left)
        head = f"({source.text[a:b]})" + source.text[b : place[0]]
    title = quoted(source.segment(node), f"{source.segment(node.left)} {after} {source.segment(node.right)}")
    parent = source.parents[node]
    if BINDING[after] < BINDING[before] and isinstance(parent, ast.BinOp | ast.UnaryOp | ast.Compare):
        return source.replaced(node, head + after + tail, compound=True, title=title, prior=prior)
    return Rewrite(start, end, head + after + tail, title, prior)


def _binding(node: ast.expr) -> int:
    """The precedence of its operator; 99 for other expressions, which already have parentheses if they need them."""
    return BINDING[ARITHMETIC[type(node.op)][0]] if isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC else 99


def _exchanged(source: Source, node: ast.expr, left: ast.expr, right: ast.expr, prior: float) -> Iterator[Rewrite]:
    if source.segment(left) != source.segment(right):
        parts = [(*source.span(left), plain(source, right)), (*source.span(right), plain(source, left))]
        yield source.together(parts, f"the operands of `{source.segment(node)[:60]}` are swapped", prior)


def logic(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """Boolean operators, dropped conditions, negations."""
    if isinstance(node, ast.expr):
        is_part = isinstance(source.parents[node], ast.BoolOp)  # which has a lower precedence than the new text
        for text, prior in _truths(source, node):
            yield source.replaced(node, text, prior, compound=not is_part)
    if isinstance(node, ast.BoolOp):
        yield from _parts(source, node)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield source.replaced(node, source.segment(node.operand), 0.8, compound=is_compound(node.operand))
    elif isinstance(node, ast.Return) and node.value is not None and not isinstance(node.value, ast.Constant):
        yield from _negated(source, node.value, 0.3)
    for test in tests_of(node):
        yield from _negated(source, test, 0.6)


def _parts(source: Source, node: ast.BoolOp) -> Iterator[Rewrite]:
    """The other operator, one part dropped, or one part negated."""
    before, after = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
    parts = [source.segment(v) for v in node.values]
    wrapped = [loosely(source, value) for value in node.values]
    whole = source.segment(node)
    shown = quoted(whole, f" {after} ".join(parts))
    place = token(source, source.span(node.values[0])[1], source.span(node.values[1])[0], before)
    if len(parts) == 2 and place is not None and before == "or":
        yield Rewrite(*place, after, shown, 0.9)
    else:
        prior = 0.9 if len(parts) == 2 else 0.8
        yield source.replaced(node, f" {after} ".join(wrapped), prior, title=shown, compound=True)
    for i, part in enumerate(parts):
        rest = wrapped[:i] + wrapped[i + 1 :]
        title = f"`{part[:40]}` is dropped from `{whole[:60]}`"
        yield source.replaced(node, f" {before} ".join(rest), 0.65, title=title, compound=True)
    for i, value in enumerate(node.values):  # one part negated, with the other operator
        for opposite in _opposites(source, value):
            text = f" {after} ".join([*wrapped[:i], opposite, *wrapped[i + 1 :]])
            yield source.replaced(node, text, 0.42, compound=True)


def tests_of(node: ast.AST) -> list[ast.expr]:
    """The conditions of a statement, expression or comprehension."""
    if isinstance(node, ast.If | ast.While | ast.IfExp):
        return [node.test]
    return list(node.ifs) if isinstance(node, ast.comprehension) else []


def loosely(source: Source, node: ast.expr) -> str:
    """Its text as an operand of `and` or `or`, in parentheses if needed."""
    text = source.segment(node)
    return f"({text})" if isinstance(node, ast.BoolOp | ast.IfExp | ast.Lambda) else text


def _negated(source: Source, test: ast.expr, prior: float) -> Iterator[Rewrite]:
    before = source.segment(test)
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        return  # the opposite comparison says the same
    if not (isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)):
        text = f"not ({before})" if isinstance(test, ast.BoolOp | ast.IfExp | ast.Compare) else f"not {before}"
        yield source.replaced(test, text, prior)


def is_place(node: ast.expr) -> bool:
    return isinstance(node, ast.Name | ast.Attribute | ast.Subscript)


def _opposites(source: Source, node: ast.expr) -> Iterator[str]:
    """Negations of one part of a condition."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield source.segment(node.operand)
        if is_place(node.operand):
            yield f"{source.segment(node.operand)} is not None"
    elif is_place(node):
        yield f"not {source.segment(node)}"
        yield f"{source.segment(node)} is None"
    elif (asked := _asked_for_none(node)) is not None:
        place = source.segment(asked[0])
        yield place if asked[1] else f"not {place}"
        yield f"{place} is not None" if asked[1] else f"{place} is None"


def _truths(source: Source, node: ast.expr) -> Iterator[tuple[str, float]]:
    """A test for None is used where a test for truth is meant, or the reverse."""
    if (asked := _asked_for_none(node)) is not None:
        place = source.segment(asked[0])
        yield f"not {place}" if asked[1] else place, 0.5
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not) and is_place(node.operand):
        yield f"{source.segment(node.operand)} is None", 0.6
    elif is_place(node) and _is_condition(source, node):
        yield f"{source.segment(node)} is not None", 0.6


def _asked_for_none(node: ast.expr) -> tuple[ast.expr, bool] | None:
    """The operand of `is None` (with True) or `is not None` (with False); None for other expressions."""
    match node:
        case ast.Compare(left=left, ops=[ast.Is() | ast.IsNot() as op], comparators=[ast.Constant(value=None)]) if is_place(
            left
        ):
            return left, isinstance(op, ast.Is)
    return None


def _is_condition(source: Source, node: ast.expr) -> bool:
    """Is it used only as a condition?"""
    parent = source.parents[node]
    return isinstance(parent, ast.BoolOp) or node in tests_of(parent)
