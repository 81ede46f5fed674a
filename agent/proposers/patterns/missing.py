"""Patterns on missing code: a forgotten statement, a loop without progress, an argument that is not normalised."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from agent.proposers.patterns.names import scope
from agent.proposers.patterns.source import FunctionNode, Rewrite, Source, first_statement, names_in, short
from agent.source import syntax

FILLING = ("add", "append", "appendleft", "extend", "update", "insert", "setdefault", "push", "put")
TEXT, NUMBER, NOTHING = ("str", "bytes"), ("number",), ("NoneType",)
ONCE = ("generator", "map", "filter", "zip", "enumerate", "reversed", "list_iterator", "dict_keys", "dict_values", "dict_items",
        "range", "odict_items", "chain")  # fmt: skip
HOLDS = ("list", "tuple", "set", "frozenset", "dict", "deque", *ONCE)
# A normal form for an argument, the prior of the change, and the types to which it applies.
NORMAL = (
    ("list({0})", 0.3, tuple(h for h in HOLDS if h != "list")), ("sorted({0})", 0.28, HOLDS), ("set({0})", 0.26, HOLDS),
    ("tuple({0})", 0.26, tuple(h for h in HOLDS if h != "tuple")), ("dict({0})", 0.26, ("list", "tuple", "dict", *ONCE)),
    ("{0}.copy()", 0.26, ("list", "set", "dict", "deque")), ("{0} or []", 0.3, NOTHING), ("{0} or {{}}", 0.28, NOTHING),
    ("{0} or ''", 0.26, NOTHING), ("{0}.lower()", 0.28, TEXT), ("{0}.strip()", 0.28, TEXT), ("abs({0})", 0.28, NUMBER),
    ("str({0})", 0.28, (*NUMBER, "bytes")), ("int({0})", 0.28, (*NUMBER, *TEXT)), ("float({0})", 0.26, (*NUMBER, *TEXT)),
)  # fmt: skip
MOST_DONORS, MOST_NAMES = 8, 8


def progress(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """A `while` loop never changes its condition: adds a step, or an assignment from a name that the loop does change."""
    if not isinstance(node, ast.While):
        return
    asked, changed = names_in(node.test), _assigned(node.body)
    if not changed.isdisjoint(asked):
        return
    forms = ["{} -= 1", "{} += 1", *("{} //= " + str(n) for n in _factors(node)), "{0} = {0}[1:]", "{0} = {0}[:-1]"]
    for name in asked:
        for rank, form in enumerate(forms):
            yield from _appended(source, node, form.format(name), 0.85 - 0.03 * rank)
        for other in sorted(changed):
            yield from _appended(source, node, f"{name} = {other}", 0.45)


def _factors(loop: ast.While) -> list[int]:
    """Two, and the numbers that the loop divides or multiplies by."""
    found = [2]
    for node in ast.walk(loop):
        if isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.Mult | ast.Mod | ast.FloorDiv | ast.Div):
            number = node.right if isinstance(node, ast.BinOp) else node.value
            if isinstance(number, ast.Constant) and type(number.value) is int and 2 < number.value < 1 << 32:
                found.append(number.value)
    return list(dict.fromkeys(found))[:4]


def updates(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """A name is used in or after a loop, and the loop fails to update it."""
    if not isinstance(node, ast.For | ast.While | ast.AsyncFor) or (function := source.function(node)) is None:
        return
    inside, read = _assigned([node]), names_in(node)
    after = {name for s in ast.walk(function) if isinstance(s, ast.Return) for name in names_in(s)}
    names = scope(source, node)
    stale = [n for n in names if n not in inside and (n in after or n in read)][:MOST_NAMES]
    fresh = [n for n in names if n in inside or n in read][:MOST_NAMES]
    for name, other in ((name, other) for name in stale for other in fresh if other != name):
        for statement in node.body:
            if source.has_own_lines(statement):
                yield inserted(source, statement, f"{name} = {other}", 0.34)
        yield from _appended(source, node, f"{name} = {other}", 0.34)


def filling(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """A container is created empty and never filled."""
    function = source.function(node)
    if not isinstance(node, ast.stmt) or isinstance(node, FunctionNode) or function is None or not source.has_own_lines(node):
        return
    for container, method in source.once(_never_filled, source.outermost_function(node) or function).items():
        names = [n for n in scope(source, node) if n != container]
        for rank, name in enumerate(names[:MOST_NAMES]):
            text = f"{container}.{method}({name})"
            yield inserted(source, node, text, 0.4 - 0.01 * rank)
            yield from _after(source, node, text, 0.38 - 0.01 * rank)


def _never_filled(source: Source, function: FunctionNode) -> dict[str, str]:
    """The containers that are never filled, each with the method that would fill it."""
    made: dict[str, str] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            text = source.segment(node.value)
            if text in ("set()", "[]", "list()"):
                made[node.targets[0].id] = "add" if text == "set()" else "append"
    added_to = {n.target.id for n in ast.walk(function) if isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Name)}
    return {name: way for name, way in made.items() if name not in added_to | source.once(filled, function).keys()}


def filled(source: Source, tree: FunctionNode | ast.Module) -> dict[str, int]:
    """The names of containers that a method fills, each with the first line where it does."""
    found: dict[str, int] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.attr in FILLING:
            found[node.value.id] = min(node.lineno, found.get(node.value.id, node.lineno))
    return found


def donors(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """Repeats a statement of the same function here, unchanged or with another name."""
    function = source.function(node)
    if not isinstance(node, ast.stmt) or isinstance(node, FunctionNode) or function is None or not source.has_own_lines(node):
        return
    here = source.segment(node)
    for rank, (text, names) in enumerate(source.once(_simple_statements, function)):
        if text != here:
            yield inserted(source, node, text, 0.3 - 0.01 * rank)
            yield from _after(source, node, text, 0.26 - 0.01 * rank)
        for before in names:
            for other in scope(source, function)[:MOST_NAMES]:
                if other not in names:
                    changed = _renamed(text, before, other)
                    yield inserted(source, node, changed, 0.22 - 0.01 * rank)


def _simple_statements(source: Source, function: FunctionNode) -> list[tuple[str, list[str]]]:
    """Short calls and augmented assignments, with the names that they pass."""
    found: dict[str, list[str]] = {}
    for node in ast.walk(function):
        if (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)) or isinstance(node, ast.AugAssign):
            text = source.segment(node)
            value = node.value
            given = value.args if isinstance(value, ast.Call) else [value]
            if "\n" not in text and len(text) <= 60:
                found[text] = [a.id for a in given if isinstance(a, ast.Name)]
    return list(found.items())[:MOST_DONORS]


def _renamed(text: str, before: str, after: str) -> str:
    tree = syntax.tree(text)
    places = sorted((n.col_offset, n.end_col_offset or 0) for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id == before)
    encoded = text.encode()
    start, end = places[-1]
    return (encoded[:start] + after.encode() + encoded[end:]).decode()


def arguments_taken_raw(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """Normalises an argument at the start of the function; types observed at run time rule out forms that cannot apply."""
    first = first_statement(source, node)
    if first is None or not isinstance(node, FunctionNode):
        return
    for argument in [*node.args.args, *node.args.kwonlyargs][:5]:
        if argument.arg not in ("self", "cls"):
            for form, prior, types in NORMAL:
                change = inserted(source, first, f"{argument.arg} = {form.format(argument.arg)}", prior)
                yield replace(change, wants=(argument.arg, types))


def mutable_defaults(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """A list, dict or set as a default is shared by all calls: gives each call its own."""
    first = first_statement(source, node)
    if first is None or not isinstance(node, FunctionNode):
        return
    positional = [*node.args.posonlyargs, *node.args.args]
    pairs = [*zip(positional[len(positional) - len(node.args.defaults) :], node.args.defaults, strict=True)]
    pairs += [(a, d) for a, d in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True) if d is not None]
    body = source.span(first)[0]
    for argument, default in pairs:
        text = source.segment(default)
        if isinstance(default, ast.List | ast.Dict | ast.Set) or text in ("list()", "dict()", "set()"):
            guard = source.laid_out(first, "if {0} is None:\n\t{0} = {1}\n", argument.arg, text)
            parts = [(*source.span(default), "None"), (body, body, guard)]
            yield source.together(parts, f"each call of `{node.name}` gets its own `{argument.arg}`", 0.7)


def early_exits(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """An early exit comes too late: moves it before the preceding statements."""
    if not isinstance(node, ast.If) or not isinstance(node.body[-1], ast.Raise | ast.Return) or node.orelse:
        return
    block, index = source.block(node)
    for distance in range(2, min(4, index) + 1):
        row = block[index - distance : index + 1]
        if not all(source.has_own_lines(s) and source.indent(s) == source.indent(node) for s in row):
            return
        start, begin, end = source.span(row[0])[0], *source.span(node)
        text = source.laid_out(node, "{}\n{}", source.segment(node), source.text[start:begin].rstrip())
        yield Rewrite(start, end, text, f"`if {short(source.segment(node.test))}` moves up {distance} statements", 0.36)


def _assigned(body: list[ast.stmt]) -> set[str]:
    """Names that are bound in these statements or changed through a method or an index."""
    found: set[str] = set()
    for node in (node for statement in body for node in ast.walk(statement)):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Call(func=ast.Attribute(value=ast.Name(id=name))):
                found.add(name)
            case ast.Subscript(value=ast.Name(id=name), ctx=ast.Store() | ast.Del()):
                found.add(name)
    return found


def inserted(source: Source, node: ast.stmt, text: str, prior: float) -> Rewrite:
    return source.put_before(node, text, f"`{short(text)}` is added", prior)


def _after(source: Source, node: ast.stmt, text: str, prior: float) -> Iterator[Rewrite]:
    """Inserts only at the end of a block; elsewhere it equals an insertion before the next statement."""
    block, index = source.block(node)
    if index == len(block) - 1 and not isinstance(node, ast.Return | ast.Raise | ast.Break | ast.Continue):
        yield source.put_behind(node, text, f"`{short(text)}` is added", prior)


def _appended(source: Source, loop: ast.While | ast.For | ast.AsyncFor, text: str, prior: float) -> Iterator[Rewrite]:
    if source.has_own_lines(loop.body[-1]):
        yield from _after(source, loop.body[-1], text, prior)


def running(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """An assignment should keep the maximum or minimum so far, or respect a lower bound."""
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
        name, value = node.targets[0].id, source.segment(node.value)
        if not value.startswith(("max(", "min(")) and "\n" not in value:
            for call, prior in ((f"max({name}", 0.36), (f"min({name}", 0.34), ("max(0", 0.34), ("max(1", 0.2)):
                yield source.replaced(node.value, f"{call}, {value})", prior)
