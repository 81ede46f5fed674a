"""Finds the functions that other functions lead to: those they call, also by operators, and setters of what they return.

Looks only at names, in the given modules; an ambiguous name leads nowhere. `d[k] = v` calls `__setitem__`,
`len(x)` calls `__len__`. Pure.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from agent.source.outline import Definition, Module

Found = tuple[Module, Definition]
HOPS = 2
MEANINGS = 2  # a name with more methods than this is ambiguous
_USUAL = frozenset(name for kind in (str, bytes, list, dict, set, int) for name in dir(kind))  # usually built-in methods

_BUILTINS = {name: f"__{name}__" for name in ("len", "iter", "next", "str", "repr", "bool", "int", "float", "hash", "reversed")}
_SUBSCRIPTS: dict[type[ast.expr_context], str] = {
    ast.Load: "__getitem__",
    ast.Store: "__setitem__",
    ast.Del: "__delitem__",
}
_COMPARED: dict[type[ast.cmpop], str] = {
    ast.Eq: "__eq__", ast.NotEq: "__ne__", ast.Lt: "__lt__", ast.LtE: "__le__", ast.Gt: "__gt__", ast.GtE: "__ge__",
}  # fmt: skip
_COMPUTED: dict[type[ast.operator], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "truediv", ast.FloorDiv: "floordiv", ast.Mod: "mod",
    ast.Pow: "pow", ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor", ast.LShift: "lshift", ast.RShift: "rshift",
}  # fmt: skip


def reached(starts: Sequence[Found], modules: Sequence[Module], hops: int = HOPS) -> dict[tuple[str, int], tuple[Found, int]]:
    """The functions reachable from `starts`, by path and first line, with the fewest hops (from 1).

    A function that only calls another or returns an attribute adds no hop.
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
    """The functions one hop away; one can occur twice."""
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
    """A method of a class, or else of the nearest base class that has it."""
    methods = ((home, _exact(home, f"{each}.{method}")) for home, each in lineage(name, module, modules))
    yield from [(home, found) for home, found in methods if found is not None][:1]


def lineage(name: str, module: Module, modules: Sequence[Module]) -> Iterator[tuple[Module, str]]:
    """A class and its base classes, nearest first, each with the module that defines it."""
    left, seen = [(module, name)], set[str]()
    while left:
        near, name = left.pop(0)
        home = next((each for each in dict.fromkeys((near, *modules)) if each.named(name)), None)
        if home is not None and name not in seen:
            seen.add(name)
            yield home, name
            left += [(home, base) for base in home.bases(name)]


def _is_module(module: Module, name: str) -> bool:
    """Does the name mean the module, or a package that can re-export its names (`pkg` for `pkg/part.py`)?"""
    return f"{name.replace('.', '/')}" in f"/{module.path}"


def _exact(module: Module, name: str) -> Definition | None:
    return next((each for each in module.definitions if each.name == name), None)


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def _body(definition: Definition) -> list[ast.stmt]:
    return definition.node.body[1:] if ast.get_docstring(definition.node) is not None else definition.node.body


def hands_on(definition: Definition) -> bool:
    """Does it only call another function or return an attribute?"""
    body = _body(definition)
    is_one = len(body) == 1 and isinstance(body[0], ast.Return | ast.Expr)
    return is_one and isinstance(getattr(body[0], "value", None), ast.Call | ast.Attribute)


def _handed_out(definition: Definition) -> str | None:
    """The attribute, if the function only returns it: "_line" for `return self._line`."""
    match _body(definition):
        case [ast.Return(value=ast.Attribute(value=value, attr=name))] if _is_self(value):
            return name
    return None


def _sets(definition: Definition, attribute: str) -> bool:
    return any(
        isinstance(node, ast.Attribute) and node.attr == attribute and isinstance(node.ctx, ast.Store)
        for node in ast.walk(definition.node)
    )


def operated(tree: ast.AST) -> Iterator[tuple[ast.expr, str]]:
    """Each operand (also of built-ins, loops and `with`), with the name of the method that is called."""
    for node in ast.walk(tree):
        match node:
            case ast.Subscript(value=value, ctx=context):
                yield value, _SUBSCRIPTS[type(context)]
            case ast.Call(func=ast.Name(id=name), args=[value, *_]) if name in _BUILTINS:
                yield value, _BUILTINS[name]
            case ast.For(iter=value) | ast.comprehension(iter=value):
                yield value, "__iter__"
            case ast.BinOp(left=left, op=operator, right=right) if type(operator) in _COMPUTED:
                yield left, f"__{_COMPUTED[type(operator)]}__"
                yield right, f"__r{_COMPUTED[type(operator)]}__"
            case ast.AugAssign(target=target, op=operator) if type(operator) in _COMPUTED:
                yield target, f"__i{_COMPUTED[type(operator)]}__"
            case ast.Compare(left=left, ops=comparisons, comparators=others):
                for one, comparison, other in zip([left, *others], comparisons, others, strict=False):
                    if isinstance(comparison, ast.In | ast.NotIn):
                        yield other, "__contains__"
                    elif type(comparison) in _COMPARED:
                        yield one, _COMPARED[type(comparison)]
            case ast.With(items=items):
                for item in items:
                    yield item.context_expr, "__enter__"
            case _:
                pass


def made(tree: ast.AST) -> dict[str, str]:
    """The names to which the result of a call is assigned, with the called name: `tc = ThresholdCounter(1)`."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=called)):
                found[name] = _own(called)
            case ast.withitem(context_expr=ast.Call(func=called), optional_vars=ast.Name(id=name)):
                found[name] = _own(called)
            case _:
                pass
    return found


def maker(value: ast.expr, known: dict[str, str]) -> str:
    """The name of the class or function that makes a value; "" if it is unknown."""
    match value:
        case ast.Name(id=name):
            return known.get(name, "")
        case ast.Call(func=called):
            return _own(called)
    return ""


def _own(called: ast.expr) -> str:
    return str(getattr(called, "attr", getattr(called, "id", "")))
