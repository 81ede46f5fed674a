"""Patterns on places that mirror each other: two indices, two sides, a tuple assigned to names that it is made of."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from agent.proposers.patterns.source import Rewrite, Source, quoted


def indices(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """Indices of nested subscripts change places, or the offset of one belongs to the other."""
    if not isinstance(node, ast.Subscript) or not isinstance(node.value, ast.Subscript):
        return
    first, second = node.value.slice, node.slice
    if isinstance(first, ast.Slice) or isinstance(second, ast.Slice):
        return
    (a, b), (c, d) = source.span(first), source.span(second)
    one, other, before = source.text[a:b], source.text[c:d], source.segment(node)
    pairs = [(other, one, 0.5)] if one != other else []
    for index, bare in ((first, other), (second, one)):
        if isinstance(index, ast.BinOp) and isinstance(index.op, ast.Add | ast.Sub) and isinstance(index.right, ast.Constant):
            base, offset = source.segment(index.left), source.text[source.span(index.left)[1] : source.span(index)[1]]
            pairs.append((base, bare + offset, 0.42) if index is first else (bare + offset, base, 0.42))
    held = source.segment(node.value.value)
    for this, that, prior in pairs:
        title = quoted(before, f"{held}[{this}][{that}]")
        yield source.together([(a, b, this), (c, d, that)], title, prior)


def sides(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """A name beside an item of a sequence is meant as an item too: `x != a[-i]` → `a[i] != a[-i]`."""
    if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load):
        return
    parent = source.parents[node]
    if isinstance(parent, ast.Compare):
        beside = [parent.left, *parent.comparators]
    elif isinstance(parent, ast.BinOp):
        beside = [parent.left, parent.right]
    elif isinstance(parent, ast.Call) and node is not parent.func:
        beside = list(parent.args)
    else:
        return
    for other in beside:
        if isinstance(other, ast.Subscript) and not isinstance(other.slice, ast.Slice) and isinstance(other.value, ast.Name):
            known = {n.id for n in ast.walk(other.slice) if isinstance(n, ast.Name)} - {other.value.id, "len", "int"}
            for name in sorted(known)[:3]:
                text = f"{other.value.id}[{name}]"
                prior = 0.5 if isinstance(parent, ast.Compare) else 0.36
                yield source.replaced(node, text, compound=False, title=quoted(node.id, text), prior=prior)


def turned(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """The roles of names that a loop assigns together are taken for each other, in the assignment and in the condition."""
    if not isinstance(node, ast.While):
        return
    for assign in node.body:
        match assign:
            case ast.Assign(targets=[ast.Tuple(elts=[ast.Name(id=one), ast.Name(id=other)])], value=ast.Tuple(elts=[x, y])):
                pass
            case _:
                continue
        (a, b), (c, d) = source.span(x), source.span(y)
        exchanged = [(a, b, source.text[c:d]), (c, d, source.text[a:b])]
        asked = [n for n in ast.walk(node.test) if isinstance(n, ast.Name) and n.id in (one, other)]
        renamed = [(*source.span(n), other if n.id == one else one) for n in asked]
        if asked:
            title = f"`{one}` and `{other}` change places in `{source.segment(assign)[:60]}` and in its loop's condition"
            yield source.together([*renamed, *exchanged], title, 0.42)
