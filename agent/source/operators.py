"""Calls that are written as operators: `d[k] = v` calls `__setitem__`, `len(x)` calls `__len__`. Pure, and by syntax alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator

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


def operated(tree: ast.AST) -> Iterator[tuple[ast.expr, str]]:
    """Each value that an operator works on, with the name of the method that is called."""
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
    """The names that are given what a call returns, with the name that is called: `tc = ThresholdCounter(1)`."""
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
    """The name of the class that a value is made from; "" where that cannot be told."""
    match value:
        case ast.Name(id=name):
            return known.get(name, "")
        case ast.Call(func=called):
            return _own(called)
    return ""


def _own(called: ast.expr) -> str:
    return str(getattr(called, "attr", getattr(called, "id", "")))
