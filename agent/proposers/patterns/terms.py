"""Patterns on arithmetic terms: a factor or power is missing, operands are too many, brackets are, indices are off together."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from agent.proposers.patterns.names import kind_of
from agent.proposers.patterns.operators import ARITHMETIC, BINDING
from agent.proposers.patterns.source import FunctionNode, Rewrite, Source, is_compound, quoted, short

MOST_NUMBERS = 2  # of the same function, besides two
LONGEST_CHAIN = 8


def scaled(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """A result or a side of a comparison lacks a factor, a divisor or a power: two, or a number of the same function."""
    function = source.function(node)
    if function is None or not isinstance(node, ast.Name | ast.Call | ast.Subscript | ast.BinOp | ast.Attribute):
        return
    parent = source.parents[node]
    is_result = isinstance(parent, ast.Return | ast.Assign | ast.AugAssign) and parent.value is node
    if not (is_result or isinstance(parent, ast.Compare)) or kind_of(source, function, node) not in ("", "number"):
        return
    before = source.segment(node)
    base = f"({before})" if is_compound(node) else before
    for rank, number in enumerate(source.once(_numbers, function)):
        for operator, prior in (("//", 0.36), ("/", 0.35), ("*", 0.34), ("**", 0.31), ("%", 0.3)):
            text = f"{base} {operator} {number}"
            compound = not isinstance(parent, ast.Compare)  # which binds less
            yield source.replaced(node, text, compound=compound, title=quoted(before, text), prior=prior - 0.03 * rank)


def _numbers(source: Source, function: FunctionNode) -> list[int]:
    found = [2]
    for node in ast.walk(function):
        if isinstance(node, ast.Constant) and type(node.value) is int and 2 < node.value < 1 << 32:
            found.append(node.value)
    return list(dict.fromkeys(found))[: MOST_NUMBERS + 1]


def shortened(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """Several operands at the end or the beginning of a chain are too many."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Add | ast.Mult | ast.BitAnd | ast.BitOr):
        return
    above = source.parents[node]
    if isinstance(above, ast.BinOp) and type(above.op) is type(node.op) and above.left is node:
        return
    before = source.segment(node)
    heads: list[ast.expr] = []  # `a * b * c`, `a * b`, `a`
    tails: list[ast.expr] = []  # `d`, `c`, `b`
    each: ast.expr = node
    while isinstance(each, ast.BinOp) and type(each.op) is type(node.op) and len(heads) < LONGEST_CHAIN:
        heads.append(each.left)
        tails.append(each.right)
        each = each.left
    for head in heads[1:]:
        text = source.segment(head)
        yield source.replaced(node, text, compound=is_compound(head), title=quoted(before, text), prior=0.5)
    operator = ARITHMETIC[type(node.op)][0]
    for count in range(2, len(tails)):
        kept = [_operand(source, tail) for tail in reversed(tails[:count])]
        text = f" {operator} ".join(kept)
        yield source.replaced(node, text, compound=True, title=quoted(before, text), prior=0.4)


def rebound(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """Two operators bind otherwise than meant: `a - b // c` → `(a - b) // c`, `a // c - b`, and brackets that are too many."""
    if not isinstance(node, ast.BinOp) or type(node.op) not in ARITHMETIC:
        return
    outer, before = ARITHMETIC[type(node.op)][0], source.segment(node)
    for child in (node.left, node.right):
        if not isinstance(child, ast.BinOp) or type(child.op) not in ARITHMETIC:
            continue
        inner = ARITHMETIC[type(child.op)][0]
        a, b = _operand(source, child.left), _operand(source, child.right)
        other = _operand(source, node.right if child is node.left else node.left)
        if BINDING[inner] == BINDING[outer]:
            continue
        is_bracketed = BINDING[inner] < BINDING[outer]
        if child is node.right:
            texts = [f"{other} {outer} {a} {inner} {b}"] if is_bracketed else [
                f"({other} {outer} {a}) {inner} {b}", f"{other} {inner} {b} {outer} {a}"]  # fmt: skip
        else:
            texts = [f"{a} {inner} {b} {outer} {other}"] if is_bracketed else [
                f"{a} {inner} ({b} {outer} {other})", f"{a} {outer} {other} {inner} {b}"]  # fmt: skip
        for text in texts:
            yield source.replaced(node, text, compound=True, title=quoted(before, text), prior=0.45)


def in_step(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """The arguments or indices of one function or sequence in an expression are off by one together."""
    if not isinstance(node, ast.BinOp | ast.Call | ast.Compare) or isinstance(source.parents[node], ast.BinOp):
        return
    groups: dict[tuple[str, str], list[tuple[ast.expr, int]]] = {}
    for each in ast.walk(node):
        at: ast.expr | None = None
        if isinstance(each, ast.Call) and len(each.args) == 1 and not each.keywords:
            held, at = each.func, each.args[0]
        elif isinstance(each, ast.Subscript) and isinstance(each.ctx, ast.Load):
            held, at = each.value, each.slice
        if at is not None and (place := _offset(at)) is not None and isinstance(held, ast.Name | ast.Attribute):
            groups.setdefault((ast.dump(held), place[0]), []).append((at, place[1]))
    for (_, name), places in groups.items():
        if len({offset for _, offset in places}) < 2:
            continue
        for shift in (-1, 1):
            parts = [(*source.span(at), _spelled(name, offset + shift)) for at, offset in places]
            before = ", ".join(_spelled(name, offset) for _, offset in places)
            after = ", ".join(text for _, _, text in parts)
            yield source.together(parts, f"{quoted(before, after)} in `{short(source.segment(node))}`", 0.45)


def _offset(node: ast.expr) -> tuple[str, int] | None:
    """(name, number) of `name`, `name + number`, `name - number`."""
    match node:
        case ast.Name(id=name):
            return name, 0
        case ast.BinOp(left=ast.Name(id=name), op=ast.Add(), right=ast.Constant(value=int(number))):
            return name, number
        case ast.BinOp(left=ast.Name(id=name), op=ast.Sub(), right=ast.Constant(value=int(number))):
            return name, -number
    return None


def _spelled(name: str, offset: int) -> str:
    return name if not offset else f"{name} {'-' if offset < 0 else '+'} {abs(offset)}"


def _operand(source: Source, node: ast.expr) -> str:
    return f"({source.segment(node)})" if is_compound(node) else source.segment(node)
