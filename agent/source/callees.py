"""What the code of functions leads to: what they call, also by an operator, and who sets what they only hand out.

By names alone, in the modules that are given; a name that may mean many things leads nowhere. Pure.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from agent.source.operators import made, maker, operated
from agent.source.outline import Definition, Module

Found = tuple[Module, Definition]
HOPS = 2
MEANINGS = 2  # methods of one name, above which it says nothing
_USUAL = frozenset(name for kind in (str, bytes, list, dict, set, int) for name in dir(kind))  # mostly called on such values


def reached(starts: Sequence[Found], modules: Sequence[Module], hops: int = HOPS) -> dict[tuple[str, int], tuple[Found, int]]:
    """The functions that are reached from these, by path and first line, with the fewest hops (from 1).

    One that does nothing but call another is no hop.
    """
    found: dict[tuple[str, int], tuple[Found, int]] = {}
    seen = {(module.path, each.first) for module, each in starts}
    level = list(starts)
    for hop in range(1, hops + 1):
        following: list[Found] = []
        queue = list(level)
        while queue:
            for one in leads(*queue.pop(0), modules):
                at = (one[0].path, one[1].first)
                if at not in seen:
                    seen.add(at)
                    found[at] = (one, hop)
                    (queue if hands_on(one[1]) else following).append(one)
        level = following
    return found


def leads(module: Module, definition: Definition, modules: Sequence[Module]) -> Iterator[Found]:
    """One hop; a function may come twice."""
    owner = definition.name.rpartition(".")[0]
    called = {id(node.func) for node in ast.walk(definition.node) if isinstance(node, ast.Call)}
    for node in ast.walk(definition.node):
        if isinstance(node, ast.Name) and id(node) in called:
            yield from _plain(module, node.id, modules)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            own = _exact(module, f"{owner}.{node.attr}") if owner and _is_self(node.value) else None
            if own is not None:
                yield module, own
            elif id(node) in called:
                yield from _methods(node.attr, modules)
    known = made(definition.node)
    for value, method in operated(definition.node):
        classes = [owner] if _is_self(value) else [maker(value, known)]
        for name in filter(None, classes):
            yield from _of_class(name, method, module, modules)
    if (attribute := _handed_out(definition)) is not None:
        for each in module.definitions:
            if each.name.rpartition(".")[0] == owner and not each.is_class and _sets(each, attribute):
                yield module, each


def _plain(module: Module, name: str, modules: Sequence[Module]) -> Iterator[Found]:
    imported = {source for source, part in module.imports() if part == name}
    for other in [module, *modules] if imported else [module]:
        found = _exact(other, name)
        if found is not None and (other is module or any(_is_module(other, source) for source in imported)):
            made = _exact(other, f"{name}.__init__") if found.is_class else found
            if made is not None:
                yield other, made
            return


def _methods(name: str, modules: Sequence[Module]) -> list[Found]:
    if name in _USUAL:
        return []
    found = [(module, each) for module in modules for each in module.definitions if each.name.endswith(f".{name}")]
    return found if len(found) <= MEANINGS and not any(each.is_class for _, each in found) else []


def _of_class(name: str, method: str, module: Module, modules: Sequence[Module]) -> Iterator[Found]:
    """A method of a class, or of the first of those that it is made from which has it."""
    left, seen = [name], set[str]()
    while left:
        name = left.pop(0)
        home = next((each for each in dict.fromkeys((module, *modules)) if (_exact(each, name))), None)
        if home is None or name in seen:
            continue
        seen.add(name)
        if (found := _exact(home, f"{name}.{method}")) is not None:
            yield home, found
            return
        left += home.bases(name)


def _is_module(module: Module, name: str) -> bool:
    """Also a package whose name is re-exported: `from pkg import name` where `pkg/part.py` has it."""
    return f"{name.replace('.', '/')}" in f"/{module.path}"


def _exact(module: Module, name: str) -> Definition | None:
    return next((each for each in module.definitions if each.name == name), None)


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def _body(definition: Definition) -> list[ast.stmt]:
    return definition.node.body[1:] if ast.get_docstring(definition.node) is not None else definition.node.body


def hands_on(definition: Definition) -> bool:
    """Does it nothing but call another, or hand out an attribute?"""
    body = _body(definition)
    is_one = len(body) == 1 and isinstance(body[0], ast.Return | ast.Expr)
    return is_one and isinstance(getattr(body[0], "value", None), ast.Call | ast.Attribute)


def _handed_out(definition: Definition) -> str | None:
    """`return self._line` and nothing else: "_line"."""
    match _body(definition):
        case [ast.Return(value=ast.Attribute(value=value, attr=name))] if _is_self(value):
            return name
    return None


def _sets(definition: Definition, attribute: str) -> bool:
    return any(
        isinstance(node, ast.Attribute) and node.attr == attribute and isinstance(node.ctx, ast.Store)
        for node in ast.walk(definition.node)
    )
