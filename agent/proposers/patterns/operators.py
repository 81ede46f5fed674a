"""Patterns on operators: comparisons, arithmetic, boolean logic, negation. They know the tree alone."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from agent.proposers.patterns.source import Rewrite, Source, is_compound, quoted

COMPARE: dict[type[ast.cmpop], tuple[str, tuple[tuple[str, float], ...]]] = {
    ast.Lt: ("<", (("<=", 1.0), (">", 0.9), (">=", 0.8), ("!=", 0.5), ("==", 0.4))),
    ast.LtE: ("<=", (("<", 1.0), (">=", 0.9), (">", 0.8), ("==", 0.4))),
    ast.Gt: (">", ((">=", 1.0), ("<", 0.9), ("<=", 0.8), ("!=", 0.5), ("==", 0.4))),
    ast.GtE: (">=", ((">", 1.0), ("<=", 0.9), ("<", 0.8), ("==", 0.4))),
    # Before a constant beside them: `== 0` is more often `< 0` than `== -1`.
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
IDLE = {"+": 0, "-": 0, "*": 1, "**": 1}  # the numbers that do nothing behind these
_COMMENT = re.compile(r"#[^\r\n]*")


def token(source: Source, start: int, end: int, spelling: str) -> tuple[int, int] | None:
    """Where an operator stands between two operands; comments between them are passed over."""
    gap = _COMMENT.sub(lambda m: " " * len(m[0]), source.text[start:end])
    words = r"\s+".join(map(re.escape, spelling.split()))
    edge = r"\b" if spelling[0].isalpha() else ""
    found = re.search(edge + words + edge, gap)
    return (start + found.start(), start + found.end()) if found else None


def comparisons(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    if not isinstance(node, ast.Compare):
        return
    operands = [node.left, *node.comparators]
    for left, op, right in zip(operands, node.ops, operands[1:], strict=False):
        before, others = COMPARE[type(op)]
        place = token(source, source.span(left)[1], source.span(right)[0], before)
        if place is None:
            continue
        for after, prior in others:
            shown = (f"{source.segment(left)} {o} {source.segment(right)}" for o in (before, after))
            yield Rewrite(*place, after, quoted(*shown), prior)
    if len(node.ops) == 1 and isinstance(node.ops[0], ast.Lt | ast.LtE | ast.Gt | ast.GtE | ast.In | ast.NotIn):
        yield from _exchanged(source, node, node.left, node.comparators[0], 0.35)


def arithmetic(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    if isinstance(node, ast.BinOp):
        before, others = ARITHMETIC.get(type(node.op), ("", ()))
        left, right = source.span(node.left), source.span(node.right)
        place = token(source, left[1], right[0], before) if before else None
        if place is None:
            return
        for after, prior in others:
            if isinstance(node.right, ast.Constant) and after in IDLE and node.right.value == IDLE[after]:
                continue  # dropping the term says it better
            if isinstance(node.left, ast.Constant) and isinstance(node.left.value, str):
                prior *= 0.3  # "…" % values, text joined to text
            yield _operator(source, node, place, before, after, prior)
        if isinstance(node.op, ast.Sub | ast.Div | ast.FloorDiv | ast.Mod | ast.Pow | ast.Add):
            yield from _exchanged(source, node, node.left, node.right, 0.5 if not isinstance(node.op, ast.Add) else 0.25)
        for kept, dropped in ((node.left, node.right), (node.right, node.left)):
            title = f"`{source.segment(dropped)[:40]}` is dropped from `{source.segment(node)[:60]}`"
            yield source.replaced(node, source.segment(kept), compound=is_compound(kept), title=title, prior=0.65)
    elif isinstance(node, ast.AugAssign):
        before, others = ARITHMETIC.get(type(node.op), ("", ()))
        start, end = source.span(node.target)[1], source.span(node.value)[0]
        place = token(source, start, end, before + "=") if before else None
        if place is None:
            return
        for after, prior in [*others, ("", 0.6)]:
            if after != "and":
                yield Rewrite(
                    *place, after + "=", quoted(source.segment(node), source.segment(node.target) + f" {after}= …"), prior
                )
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.Invert):
        text = source.segment(node.operand)
        yield source.replaced(
            node, text, compound=is_compound(node.operand), title=quoted(source.segment(node), text), prior=0.8
        )  # fmt: skip


def is_idle(parent: ast.AST, node: ast.expr, text: str) -> bool:
    """Would this number do nothing in the node's place, as in `x - 0`? Then the term is better dropped: a change of its own."""
    sign = ARITHMETIC.get(type(parent.op), ("", ()))[0] if isinstance(parent, ast.BinOp) else ""
    if sign not in IDLE or (node is getattr(parent, "left", None) and sign not in ("+", "*")):
        return False
    return text in (f"{IDLE[sign]}", f"{IDLE[sign]}.0")


def _operator(source: Source, node: ast.BinOp, place: tuple[int, int], before: str, after: str, prior: float) -> Rewrite:
    """Another operator between the same operands, with parentheses only where the binding changes."""
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
    """How strongly its operator binds; what cannot stand bare beside another operator is in parentheses already."""
    return BINDING[ARITHMETIC[type(node.op)][0]] if isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC else 99


def _exchanged(source: Source, node: ast.expr, left: ast.expr, right: ast.expr, prior: float) -> Iterator[Rewrite]:
    (a, b), (c, d) = source.span(left), source.span(right)
    one, other = source.text[a:b], source.text[c:d]
    if one == other:
        return
    one = f"({one})" if is_compound(left) else one
    other = f"({other})" if is_compound(right) else other
    yield Rewrite(a, d, other + source.text[b:c] + one, f"the operands of `{source.segment(node)[:60]}` change places", prior)


def logic(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """Boolean operators, dropped conditions, negations."""
    if isinstance(node, ast.expr):
        is_part = isinstance(source.parents[node], ast.BoolOp)  # which binds less than what is put there
        for text, prior in _truths(source, node):
            yield source.replaced(node, text, compound=not is_part, title=quoted(source.segment(node), text), prior=prior)
    if isinstance(node, ast.BoolOp):
        before, after = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        parts = [source.segment(v) for v in node.values]
        wrapped = [
            f"({p})" if isinstance(v, ast.BoolOp | ast.IfExp | ast.Lambda) else p
            for v, p in zip(node.values, parts, strict=True)
        ]
        whole = source.segment(node)
        shown = quoted(whole, f" {after} ".join(parts))
        if len(parts) == 2:
            place = token(source, source.span(node.values[0])[1], source.span(node.values[1])[0], before)
            if place is not None and before == "or":
                yield Rewrite(*place, after, shown, 0.9)
            else:
                yield source.replaced(node, f" {after} ".join(wrapped), compound=True, title=shown, prior=0.9)
        else:
            yield source.replaced(node, f" {after} ".join(wrapped), compound=True, title=shown, prior=0.8)
        for i, part in enumerate(parts):
            rest = wrapped[:i] + wrapped[i + 1 :]
            title = f"`{part[:40]}` is dropped from `{whole[:60]}`"
            yield source.replaced(node, f" {before} ".join(rest), compound=True, title=title, prior=0.65)
        for i, value in enumerate(node.values):  # a refusal that was written as a demand, or the reverse
            for opposite in _opposites(source, value):
                text = f" {after} ".join([*wrapped[:i], opposite, *wrapped[i + 1 :]])
                yield source.replaced(node, text, compound=True, title=quoted(whole, text), prior=0.42)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        text = source.segment(node.operand)
        yield source.replaced(
            node, text, compound=is_compound(node.operand), title=quoted(source.segment(node), text), prior=0.8
        )
    elif isinstance(node, ast.If | ast.While | ast.IfExp) or (isinstance(node, ast.comprehension) and node.ifs):
        for test in node.ifs if isinstance(node, ast.comprehension) else [node.test]:
            yield from _condition(source, test)
    if isinstance(node, ast.Return) and node.value is not None and not isinstance(node.value, ast.Constant):
        yield from _condition(source, node.value, 0.3)


def _condition(source: Source, test: ast.expr, prior: float = 0.6) -> Iterator[Rewrite]:
    before = source.segment(test)
    start, end = source.span(test)
    if not (isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)):
        text = f"not ({before})" if isinstance(test, ast.BoolOp | ast.IfExp | ast.Compare) else f"not {before}"
        yield Rewrite(start, end, text, quoted(before, text), prior)


def is_place(node: ast.expr) -> bool:
    return isinstance(node, ast.Name | ast.Attribute | ast.Subscript)


def _opposites(source: Source, node: ast.expr) -> Iterator[str]:
    """Texts that mean the opposite of one part of a condition."""
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
    """Whether something is there and whether it is true are taken for each other, in both directions."""
    if (asked := _asked_for_none(node)) is not None:
        place = source.segment(asked[0])
        yield f"not {place}" if asked[1] else place, 0.5
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not) and is_place(node.operand):
        yield f"{source.segment(node.operand)} is None", 0.6
    elif is_place(node) and _is_condition(source, node):
        yield f"{source.segment(node)} is not None", 0.6


def _asked_for_none(node: ast.expr) -> tuple[ast.expr, bool] | None:
    """The place that `is None` (True) or `is not None` (False) is asked of."""
    if not isinstance(node, ast.Compare) or len(node.ops) != 1 or not isinstance(node.ops[0], ast.Is | ast.IsNot):
        return None
    right = node.comparators[0]
    is_none = isinstance(right, ast.Constant) and right.value is None
    return (node.left, isinstance(node.ops[0], ast.Is)) if is_none and is_place(node.left) else None


def _is_condition(source: Source, node: ast.expr) -> bool:
    """Does only its truth count?"""
    parent = source.parents[node]
    return (
        isinstance(parent, ast.BoolOp)
        or (isinstance(parent, ast.If | ast.While | ast.IfExp) and parent.test is node)
        or (isinstance(parent, ast.comprehension) and node in parent.ifs)
    )
