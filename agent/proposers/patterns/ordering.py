"""Patterns on sorting and selecting: the key, the direction, and whether to sort at all."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from agent.proposers.patterns.names import kind_of, scope
from agent.proposers.patterns.source import FunctionNode, Rewrite, Source, called_name, is_compound

KEYS = ("len", "abs", "str", "lambda x: x[1]", "str.lower", "lambda x: x[0]", "lambda x: -x")
ORDERS = ("key=len", "reverse=True", "key=abs", "key=str.lower")
MOST_DICTS = 2


def keys(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """`sorted`, `sort`, `min`, `max`: a `key` or a direction is missing, superfluous or wrong."""
    if not isinstance(node, ast.Call):
        return
    name = called_name(node)
    if name not in ("sorted", "sort", "max", "min"):
        return
    before, known = source.segment(node), {k.arg: k for k in node.keywords}
    forms = [*KEYS[:4], *_by_value(source, node), *KEYS[4:]]
    for arg in ("key", "reverse"):
        if arg in known:
            yield from _dropped(source, node, known[arg])
    if "key" in known:
        for rank, form in enumerate(forms):
            yield source.replaced(known["key"].value, form, 0.42 - 0.01 * rank)
    close = source.span(node)[1] - 1
    if source.text[:close].rstrip().endswith(","):
        return
    comma = ", " if node.args or node.keywords else ""
    extra = [] if "key" in known or len(node.args) > 1 else [f"key={form}" for form in forms]
    extra[1:1] = ["reverse=True"] if name in ("sorted", "sort") and "reverse" not in known else []
    for rank, text in enumerate(extra):
        yield Rewrite(close, close, comma + text, f"`{before[:60]}` gets `{text}`", 0.45 - 0.015 * rank)


def in_order(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """A returned list should be sorted."""
    function = source.function(node)
    if function is None or not isinstance(node, ast.Name | ast.ListComp | ast.Call | ast.BinOp):
        return
    if not isinstance(source.parents[node], ast.Return) or kind_of(source, function, node) not in ("", "list", "set"):
        return
    before = source.segment(node)
    if isinstance(node, ast.Call) and before.startswith(("sorted(", "reversed(")):
        return
    for order in ORDERS:
        yield source.replaced(node, f"sorted({before}, {order})", 0.32)


def _by_value(source: Source, node: ast.AST) -> list[str]:
    """Sort keys that look each element up in a dict in scope."""
    function = source.function(node)
    names = source.once(_looked_up, function) if function is not None else []
    return [f"{name}.get" for name in names[:MOST_DICTS]]


def _looked_up(source: Source, function: FunctionNode) -> list[str]:
    """Names that hold a dict, as far as the function's code shows."""
    found = [n for n in scope(source, function) if kind_of(source, function, ast.Name(id=n)) == "dict"]
    for node in ast.walk(function):
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr="items" | "keys" | "get" | "values"):
                found.append(name)
    return list(dict.fromkeys(found))


def _dropped(source: Source, node: ast.Call, keyword: ast.keyword) -> Iterator[Rewrite]:
    start, end = source.span(keyword)
    earlier = [source.span(a)[1] for a in (*node.args, *(k.value for k in node.keywords)) if source.span(a)[1] <= start]
    if earlier and not any(is_compound(a) and source.text[source.span(a)[1]] == ")" for a in node.args):
        title = f"`{source.segment(keyword)}` is dropped"
        yield Rewrite(max(earlier), end, "", title, 0.6 if keyword.arg == "reverse" else 0.35)
