"""Patterns on what is not there: a statement that was forgotten, a loop that stands still, an argument taken as it comes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from agent.proposers.patterns.layout import Block, indent, line_end, siblings, stands_alone, step
from agent.proposers.patterns.names import scope
from agent.proposers.patterns.source import FunctionNode, Rewrite, Source, quoted, short

Loop = ast.For | ast.While | ast.AsyncFor
FILLING = ("add", "append", "appendleft", "extend", "update", "insert", "setdefault", "push", "put")
TEXT, NUMBER, NOTHING = ("str", "bytes"), ("number",), ("NoneType",)
ONCE = ("generator", "map", "filter", "zip", "enumerate", "reversed", "list_iterator", "dict_keys", "dict_values", "dict_items",
        "range", "odict_items", "chain")  # fmt: skip
HOLDS = ("list", "tuple", "set", "frozenset", "dict", "deque", *ONCE)
# The form that a function wants its argument in, how often it is forgotten, and for which types that means something.
NORMAL = (
    ("list({0})", 0.3, tuple(h for h in HOLDS if h != "list")), ("sorted({0})", 0.28, HOLDS), ("set({0})", 0.26, HOLDS),
    ("tuple({0})", 0.26, tuple(h for h in HOLDS if h != "tuple")), ("dict({0})", 0.26, ("list", "tuple", "dict", *ONCE)),
    ("{0}.copy()", 0.26, ("list", "set", "dict", "deque")), ("{0} or []", 0.3, NOTHING), ("{0} or {{}}", 0.28, NOTHING),
    ("{0} or ''", 0.26, NOTHING), ("{0}.lower()", 0.28, TEXT), ("{0}.strip()", 0.28, TEXT), ("abs({0})", 0.28, NUMBER),
    ("str({0})", 0.28, (*NUMBER, "bytes")), ("int({0})", 0.28, (*NUMBER, *TEXT)), ("float({0})", 0.26, (*NUMBER, *TEXT)),
)  # fmt: skip
MOST_DONORS, MOST_NAMES = 8, 8


def progress(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """A `while` loop whose condition nothing in it changes: a step by one is missing, or by a number that the loop has."""
    if not isinstance(node, ast.While):
        return
    asked = list(dict.fromkeys(n.id for n in ast.walk(node.test) if isinstance(n, ast.Name)))
    if any(name in assigned(node.body) for name in asked) or not asked:
        return
    others = [n for n in sorted(assigned(node.body)) if n not in asked]
    forms = ["{} -= 1", "{} += 1", *("{} //= " + str(n) for n in _factors(node)), "{0} = {0}[1:]", "{0} = {0}[:-1]"]
    for name in asked:
        for rank, form in enumerate(forms):
            yield from _appended(source, node, form.format(name), 0.85 - 0.03 * rank)
        for other in others:
            yield from _appended(source, node, f"{name} = {other}", 0.45)


def _factors(loop: ast.While) -> list[int]:
    """Numbers that the loop divides or multiplies by, and two."""
    found = [2]
    for node in ast.walk(loop):
        if isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.Mult | ast.Mod | ast.FloorDiv | ast.Div):
            number = node.right if isinstance(node, ast.BinOp) else node.value
            if isinstance(number, ast.Constant) and type(number.value) is int and 2 < number.value < 1 << 32:
                found.append(number.value)
    return list(dict.fromkeys(found))[:4]


def updates(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """A name set before a loop and used after it, which the loop forgets to set."""
    if not isinstance(node, Loop) or (function := source.function(node)) is None:
        return
    inside = assigned([node])
    after = {n.id for s in ast.walk(function) if isinstance(s, ast.Return) for n in ast.walk(s) if isinstance(n, ast.Name)}
    read = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    stale = [n for n in scope(source, function) if n not in inside and (n in after or n in read)][:MOST_NAMES]
    fresh = [n for n in scope(source, function) if n in inside or n in read]
    for name in stale:
        for other in fresh[:MOST_NAMES]:
            if other != name:
                yield from _prepended_or_appended(source, node, f"{name} = {other}", 0.34)


def filling(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """A container that is made empty and asked, but never filled."""
    if not isinstance(node, ast.stmt) or isinstance(node, FunctionNode) or not stands_alone(source, node):
        return
    outer = source.outermost_function(node)
    if outer is None or source.function(node) is None:
        return
    for container, kind in source.once(_never_filled, outer).items():
        names = [n for n in scope(source, source.function(node) or outer) if n != container]
        for rank, name in enumerate(names[:MOST_NAMES]):
            text = f"{container}.{'add' if kind == 'set' else 'append'}({name})"
            yield _inserted(source, node, text, 0.4 - 0.01 * rank)
            yield from _after(source, node, text, 0.38 - 0.01 * rank)


def _never_filled(source: Source, function: FunctionNode) -> dict[str, str]:
    made: dict[str, str] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            text = source.segment(node.value)
            if text in ("set()", "[]", "list()"):
                made[node.targets[0].id] = "set" if text == "set()" else "list"
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.attr in FILLING:
            made.pop(node.value.id, None)
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            made.pop(node.target.id, None)
    return made


def donors(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """A statement of the same function is missing here too, as it is or about another name."""
    function = source.function(node)
    if not isinstance(node, ast.stmt) or isinstance(node, FunctionNode) or function is None or not stands_alone(source, node):
        return
    here = source.segment(node)
    for rank, (text, names) in enumerate(source.once(_simple_statements, function)):
        if text != here:
            yield _inserted(source, node, text, 0.3 - 0.01 * rank)
            yield from _after(source, node, text, 0.26 - 0.01 * rank)
        for before in names:
            for other in scope(source, function)[:MOST_NAMES]:
                if other not in names:
                    changed = _renamed(text, before, other)
                    yield _inserted(source, node, changed, 0.22 - 0.01 * rank)


def _simple_statements(source: Source, function: FunctionNode) -> list[tuple[str, list[str]]]:
    """Short statements that do something, and the names that they pass on."""
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
    tree = ast.parse(text)
    places = sorted((n.col_offset, n.end_col_offset or 0) for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id == before)
    encoded = text.encode()
    start, end = places[-1]
    return (encoded[:start] + after.encode() + encoded[end:]).decode()


def arguments_taken_raw(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """An argument is brought into the form that the function wants, at its beginning; types seen at run time say which."""
    first = _first_statement(source, node)
    if first is None or not isinstance(node, FunctionNode):
        return
    for argument in [*node.args.args, *node.args.kwonlyargs][:5]:
        if argument.arg not in ("self", "cls"):
            for form, prior, types in NORMAL:
                change = _inserted(source, first, f"{argument.arg} = {form.format(argument.arg)}", prior)
                yield replace(change, wants=(argument.arg, types))


def mutable_defaults(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """A list, dict or set as a default is shared by all calls: each gets its own."""
    first = _first_statement(source, node)
    if first is None or not isinstance(node, FunctionNode):
        return
    positional = [*node.args.posonlyargs, *node.args.args]
    pairs = [*zip(positional[len(positional) - len(node.args.defaults) :], node.args.defaults, strict=True)]
    pairs += [(a, d) for a, d in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True) if d is not None]
    for argument, default in pairs:
        text = source.segment(default)
        if isinstance(default, ast.List | ast.Dict | ast.Set) or text in ("list()", "dict()", "set()"):
            start, end = source.span(default)
            body, space, end_of_line = source.span(first)[0], indent(source, first), line_end(source)
            guard = f"if {argument.arg} is None:{end_of_line}{space}{step(space)}{argument.arg} = {text}{end_of_line}{space}"
            title = f"each call of `{node.name}` gets a `{argument.arg}` of its own"
            yield Rewrite(start, body, "None" + source.text[end:body] + guard, title, 0.7)


def early_exits(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """A refusal that comes too late goes before what it should have kept from happening."""
    if not isinstance(node, ast.If) or not isinstance(node.body[-1], ast.Raise | ast.Return) or node.orelse:
        return
    block = siblings(source, node)
    index = block.index(node) if node in block else 0
    for distance in (2, 3, 4):
        if index < distance:
            return
        first = block[index - distance]
        if not all(
            stands_alone(source, s) and indent(source, s) == indent(source, node) for s in block[index - distance : index + 1]
        ):
            return
        start, begin, end = source.span(first)[0], *source.span(node)
        between = source.text[start:begin]
        text = source.segment(node) + line_end(source) + indent(source, node) + between.rstrip()
        yield Rewrite(start, end, text, f"`if {short(source.segment(node.test))}` is asked {distance} statements earlier", 0.36)


def _first_statement(source: Source, node: ast.AST) -> ast.stmt | None:
    """Of a function, after its docstring, where it stands on a line of its own."""
    if not isinstance(node, FunctionNode):
        return None
    body: Block = [s for s in node.body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
    return body[0] if body and body[0].lineno > node.lineno and stands_alone(source, body[0]) else None


def assigned(body: list[ast.stmt]) -> set[str]:
    """Names that are bound in these statements or changed through a method or an index."""
    found: set[str] = set()
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                found.add(node.id)
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name):
                found.add(node.func.value.id)
            elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load) and isinstance(node.value, ast.Name):
                found.add(node.value.id)
    return found


def _inserted(source: Source, node: ast.stmt, text: str, prior: float) -> Rewrite:
    start, _ = source.span(node)
    return Rewrite(start, start, f"{text}{line_end(source)}{indent(source, node)}", f"`{short(text)}` is added", prior)


def _after(source: Source, node: ast.stmt, text: str, prior: float) -> Iterator[Rewrite]:
    """Only at the end of a block: everywhere else it is the same as before the next statement."""
    block = siblings(source, node)
    if block[-1] is node and not isinstance(node, ast.Return | ast.Raise | ast.Break | ast.Continue):
        _, end = source.span(node)
        yield Rewrite(end, end, f"{line_end(source)}{indent(source, node)}{text}", f"`{short(text)}` is added", prior)


def _appended(source: Source, loop: ast.While | ast.For | ast.AsyncFor, text: str, prior: float) -> Iterator[Rewrite]:
    last = loop.body[-1]
    if stands_alone(source, last):
        yield from _after(source, last, text, prior)


def _prepended_or_appended(
    source: Source, loop: ast.While | ast.For | ast.AsyncFor, text: str, prior: float
) -> Iterator[Rewrite]:
    for statement in loop.body:
        if stands_alone(source, statement):
            yield _inserted(source, statement, text, prior)
    yield from _appended(source, loop, text, prior)


def running(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """What is kept should be the largest or smallest so far, or not below a bound."""
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
        name, value = node.targets[0].id, source.segment(node.value)
        if not value.startswith(("max(", "min(")) and "\n" not in value:
            start, end = source.span(node.value)
            for text, prior in ((f"max({name}, {value})", 0.36), (f"min({name}, {value})", 0.34), (f"max(0, {value})", 0.34),
                                (f"max(1, {value})", 0.2)):  # fmt: skip
                yield Rewrite(start, end, text, quoted(value, text), prior)
