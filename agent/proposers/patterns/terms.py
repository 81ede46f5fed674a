"""Patterns on terms: missing factors, superfluous operands or parentheses, indices that are shifted or swapped."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from agent.proposers.patterns.names import kind_of, scope
from agent.proposers.patterns.operators import ARITHMETIC, BINDING
from agent.proposers.patterns.source import FunctionNode, Rewrite, Source, is_compound, names_in, plain, quoted, short, unread

MOST_NUMBERS, MOST_FACTORS = 2, 3  # from the same function, besides the number two
LONGEST_CHAIN = 8
OFFSET = re.compile(r"(?:^|_)(?:offset|shift|start|base|delta)(?:$|_)")


def scaled(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """A result or a side of a comparison lacks a factor, divisor, power or modulus: two, or one that the function uses."""
    function = source.function(node)
    if function is None or not isinstance(node, ast.Name | ast.Call | ast.Subscript | ast.BinOp | ast.Attribute):
        return
    parent = source.parents[node]
    is_result = isinstance(parent, ast.Return | ast.Assign | ast.AugAssign) and parent.value is node
    if not (is_result or isinstance(parent, ast.Compare)) or kind_of(source, function, node) not in ("", "number"):
        return
    used, own = source.once(_factors, function), source.segment(node)
    for rank, factor in enumerate(each for each in dict.fromkeys(["2", *used]) if each != own):
        strange = 0.0 if factor in used else 0.1
        for operator, prior in (("//", 0.36), ("/", 0.35), ("*", 0.34), ("**", 0.31), ("%", 0.3)):
            compound = not isinstance(parent, ast.Compare)  # which has a lower precedence
            yield source.replaced(
                node, f"{plain(source, node)} {operator} {factor}", prior - strange - 0.03 * rank, compound=compound
            )


def repeated(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """A product lacks one of its own numbers once more: `days * 24 * 60` → `days * 24 * 60 * 60`."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) and source.function(node) is not None:
        parent = source.parents[node]
        if isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Mult):
            return
        for number in dict.fromkeys(source.segment(each) for each in _operands(node) if _is_whole(each)):
            before, end = source.segment(node), source.span(node)[1]
            yield Rewrite(end, end, f" * {number}", quoted(before, f"{before} * {number}"), 0.4)


def shifted(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """A number lacks another that was computed and is never used, an index also an offset: `items[n]` → `items[n + offset]`."""
    function = source.function(node)
    if function is None or not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load):
        return
    parent = source.parents[node]
    is_index = isinstance(parent, ast.Subscript) and parent.slice is node
    if not (is_index or isinstance(parent, ast.Call | ast.Slice | ast.Compare | ast.Return)):
        return
    if (isinstance(parent, ast.Call) and parent.func is node) or kind_of(source, function, node) not in ("", "number"):
        return
    offsets = [name for name in scope(source, node) if is_index and OFFSET.search(name) and name != node.id]
    for name in dict.fromkeys([*source.once(unread, function), *offsets]):
        for operator, prior in (("+", 0.6), ("-", 0.5)):
            yield source.replaced(node, f"{node.id} {operator} {name}", prior if is_index else prior - 0.15, compound=True)


def _operands(node: ast.expr) -> Iterator[ast.expr]:
    """The factors of a product."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        yield from _operands(node.left)
        yield from _operands(node.right)
    else:
        yield node


def _is_whole(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int and node.value > 1


def _factors(source: Source, function: FunctionNode) -> list[str]:
    """The numbers of a function, and the names that it multiplies, divides or raises to a power by."""
    numbers, names = list[str](), list[str]()
    for node in ast.walk(function):
        if isinstance(node, ast.Constant) and type(node.value) is int and 2 <= node.value < 1 << 32:
            numbers.append(source.segment(node))
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div | ast.FloorDiv | ast.Mod | ast.Pow):
            names += [each.id for each in (node.left, node.right) if isinstance(each, ast.Name)]
    return [*dict.fromkeys(numbers)][:MOST_NUMBERS] + [*dict.fromkeys(names)][:MOST_FACTORS]


def shortened(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """Removes several operands at the end or the start of a chain."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Add | ast.Mult | ast.BitAnd | ast.BitOr):
        return
    above = source.parents[node]
    if isinstance(above, ast.BinOp) and type(above.op) is type(node.op) and above.left is node:
        return
    heads: list[ast.expr] = []  # `a * b * c`, `a * b`, `a`
    tails: list[ast.expr] = []  # `d`, `c`, `b`
    each: ast.expr = node
    while isinstance(each, ast.BinOp) and type(each.op) is type(node.op) and len(heads) < LONGEST_CHAIN:
        heads.append(each.left)
        tails.append(each.right)
        each = each.left
    for head in heads[1:]:
        yield source.replaced(node, source.segment(head), 0.5, compound=is_compound(head))
    operator = ARITHMETIC[type(node.op)][0]
    for count in range(2, len(tails)):
        text = f" {operator} ".join(plain(source, tail) for tail in reversed(tails[:count]))
        yield source.replaced(node, text, 0.4, compound=True)


def rebound(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """Two operators have the wrong precedence: `a - b // c` → `(a - b) // c`, `a // c - b`; drops wrong parentheses."""
    if not isinstance(node, ast.BinOp) or type(node.op) not in ARITHMETIC:
        return
    outer = ARITHMETIC[type(node.op)][0]
    for child in (node.left, node.right):
        if not isinstance(child, ast.BinOp) or type(child.op) not in ARITHMETIC:
            continue
        inner = ARITHMETIC[type(child.op)][0]
        a, b = plain(source, child.left), plain(source, child.right)
        other = plain(source, node.right if child is node.left else node.left)
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
            yield source.replaced(node, text, 0.45, compound=True)


def in_step(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """All arguments or indices of one function or sequence in an expression are off by one."""
    if not isinstance(node, ast.BinOp | ast.Call | ast.Compare) or isinstance(source.parents[node], ast.BinOp):
        return
    groups: dict[tuple[str, str], list[tuple[ast.expr, int]]] = {}
    for each in ast.walk(node):
        match each:
            case ast.Call(func=held, args=[at], keywords=[]) | ast.Subscript(value=held, slice=at, ctx=ast.Load()):
                if isinstance(held, ast.Name | ast.Attribute) and (place := _offset(at)) is not None:
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
    """(name, signed number) for `name`, `name + number`, `name - number`; None for other expressions."""
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


def indices(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """Swaps the indices of nested subscripts, or moves the offset of one to the other."""
    if not isinstance(node, ast.Subscript) or not isinstance(node.value, ast.Subscript):
        return
    first, second = node.value.slice, node.slice
    if isinstance(first, ast.Slice) or isinstance(second, ast.Slice):
        return
    one, other, held = source.segment(first), source.segment(second), source.segment(node.value.value)
    pairs = [(other, one, 0.5)] if one != other else []
    for index, bare in ((first, other), (second, one)):
        if isinstance(index, ast.BinOp) and isinstance(index.op, ast.Add | ast.Sub) and isinstance(index.right, ast.Constant):
            base, offset = source.segment(index.left), source.text[source.span(index.left)[1] : source.span(index)[1]]
            pairs.append((base, bare + offset, 0.42) if index is first else (bare + offset, base, 0.42))
    for this, that, prior in pairs:
        title = quoted(source.segment(node), f"{held}[{this}][{that}]")
        yield source.together([(*source.span(first), this), (*source.span(second), that)], title, prior)


def sides(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """A name next to an item of a sequence should be an item too: `x != a[-i]` → `a[i] != a[-i]`."""
    if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load):
        return
    parent = source.parents[node]
    beside: list[ast.expr] = []
    match parent:
        case ast.Compare(left=left, comparators=others):
            beside = [left, *others]
        case ast.BinOp(left=left, right=right):
            beside = [left, right]
        case ast.Call(func=called, args=arguments) if called is not node:
            beside = arguments
    for other in beside:
        if isinstance(other, ast.Subscript) and not isinstance(other.slice, ast.Slice) and isinstance(other.value, ast.Name):
            known = set(names_in(other.slice)) - {other.value.id, "len", "int"}
            for name in sorted(known)[:3]:
                yield source.replaced(node, f"{other.value.id}[{name}]", 0.5 if isinstance(parent, ast.Compare) else 0.36)


def turned(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """Swaps the roles of two names that a loop assigns together, in the assignment and in the loop's condition."""
    if not isinstance(node, ast.While):
        return
    for assign in node.body:
        match assign:
            case ast.Assign(targets=[ast.Tuple(elts=[ast.Name(id=one), ast.Name(id=other)])], value=ast.Tuple(elts=[x, y])):
                exchanged = [(*source.span(x), source.segment(y)), (*source.span(y), source.segment(x))]
                asked = [n for n in ast.walk(node.test) if isinstance(n, ast.Name) and n.id in (one, other)]
                renamed = [(*source.span(n), other if n.id == one else one) for n in asked]
                if asked:
                    title = f"`{one}` and `{other}` are swapped in `{source.segment(assign)[:60]}` and in its loop's condition"
                    yield source.together([*renamed, *exchanged], title, 0.42)
