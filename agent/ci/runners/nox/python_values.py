"""Evaluates expressions of Python source without running it: literals, names, f-strings, a few pure functions.

A value that is not known is `UNKNOWN`, never a guess. Knows no runner.
"""

from __future__ import annotations

import ast
import operator
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

SIZE = 64 * 1024  # characters or items of one value
_DEPTH = 60


class UnknownValue:
    """A value that is only known when the file is run."""

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN = UnknownValue()
_COMPARISONS: Mapping[type[ast.cmpop], Callable[[object, object], object]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.In: lambda one, many: one in many,  # type: ignore[operator]
    ast.NotIn: lambda one, many: one not in many,  # type: ignore[operator]
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
}
_METHODS = ("join", "split", "strip", "lower", "upper", "replace", "format", "startswith", "endswith", "removeprefix")


@dataclass
class PythonScope:
    """Names and their values. `call` evaluates further functions, by their dotted name."""

    names: dict[str, object]
    env: Mapping[str, str] = field(default_factory=dict)
    call: Callable[[str, list[object], dict[str, object]], object] = lambda name, arguments, options: UNKNOWN


def dotted(node: ast.expr) -> str:
    """`nox.options.sessions` of such a node; "" for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (owner := dotted(node.value)):
        return f"{owner}.{node.attr}"
    return ""


def value(node: ast.expr, scope: PythonScope, depth: int = 0) -> object:
    """The value of an expression, or `UNKNOWN`."""
    if depth > _DEPTH:
        return UNKNOWN
    try:
        found = _value(node, scope, depth + 1)
    except (TypeError, ValueError, KeyError, IndexError, AttributeError, OverflowError):
        return UNKNOWN
    return UNKNOWN if isinstance(found, (str, list, tuple, dict)) and len(found) > SIZE else found


def _known(node: ast.expr, scope: PythonScope, depth: int) -> Any:
    """Raises `ValueError` where the value is unknown, which makes that of the expression around it unknown too."""
    found = value(node, scope, depth)
    if isinstance(found, UnknownValue):
        raise ValueError
    return found


def _value(node: ast.expr, scope: PythonScope, depth: int) -> object:
    def known(inner: ast.expr) -> Any:
        return _known(inner, scope, depth)

    match node:
        case ast.Constant(value=constant):
            return constant
        case ast.Name() | ast.Attribute():
            return scope.names.get(dotted(node), UNKNOWN)
        case ast.List() | ast.Tuple() | ast.Set():
            return _items(node.elts, scope, depth)
        case ast.Dict(keys=keys, values=values):
            pairs: dict[object, object] = {}
            for key, item in zip(keys, values, strict=True):
                pairs |= {**known(item)} if key is None else {known(key): value(item, scope, depth)}
            return pairs
        case ast.JoinedStr(values=parts):
            return "".join(_text(part, scope, depth) for part in parts)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            one, other = known(left), known(right)
            if isinstance(one, list) and isinstance(other, list):
                return one + other
            return one + other if isinstance(one, str) and isinstance(other, str) else UNKNOWN
        case ast.BoolOp(op=kind, values=values):
            found: object = UNKNOWN
            for part in values:
                found = known(part)
                if bool(found) is isinstance(kind, ast.Or):
                    break
            return found
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return not known(operand)
        case ast.Compare(left=left, ops=[how], comparators=[right]) if type(how) in _COMPARISONS:
            return _COMPARISONS[type(how)](known(left), known(right))
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return known(body if known(test) else orelse)
        case ast.Subscript(value=owner, slice=ast.Slice(lower=lower, upper=upper, step=None)):
            first, last = (None if end is None else known(end) for end in (lower, upper))
            return known(owner)[first:last]
        case ast.Subscript(value=owner, slice=index):
            return scope.env[str(known(index))] if dotted(owner) == "os.environ" else known(owner)[known(index)]
        case ast.Call():
            return _call(node, scope, depth)
    return UNKNOWN


def _items(nodes: list[ast.expr], scope: PythonScope, depth: int) -> list[object]:
    items: list[object] = []
    for node in nodes:
        if not isinstance(node, ast.Starred):
            items.append(value(node, scope, depth))
        elif isinstance(inner := _known(node.value, scope, depth), list):
            items += inner
        else:
            raise ValueError
    return items


def _text(part: ast.expr, scope: PythonScope, depth: int) -> str:
    if isinstance(part, ast.Constant):
        return str(part.value)
    if not isinstance(part, ast.FormattedValue) or part.format_spec is not None:
        raise ValueError
    found = _known(part.value, scope, depth)
    text = repr(found) if part.conversion == ord("r") else str(found)
    if len(text) > SIZE:
        raise ValueError
    return text


def _call(node: ast.Call, scope: PythonScope, depth: int) -> object:
    arguments = _items(node.args, scope, depth)
    options = {word.arg: value(word.value, scope, depth) for word in node.keywords if word.arg}
    name = dotted(node.func)
    match name, arguments:
        case "os.environ.get" | "os.getenv", [variable, *default]:
            return scope.env.get(str(variable), default[0] if default else None)
        case "list" | "tuple", [list() as items]:
            return list(items)
        case "sorted", [list() as items]:
            return sorted(items)
        case "str", [str() | int() as one]:
            return str(one)
        case "Path" | "pathlib.Path", [str() as path]:
            return path
        case "shlex.split", [str() as text]:
            return shlex.split(text)
    if name and not isinstance(found := scope.call(name, arguments, options), UnknownValue):
        return found
    if isinstance(node.func, ast.Attribute) and UNKNOWN not in arguments:
        return _method(_known(node.func.value, scope, depth), node.func.attr, arguments, options)
    return UNKNOWN


def _method(owner: object, name: str, arguments: list[object], options: Mapping[str, object]) -> object:
    if name not in (_METHODS if isinstance(owner, str) else ("get",) if isinstance(owner, dict) else ()):
        return UNKNOWN
    if isinstance(owner, str):
        if name == "replace" and len(owner) * max(len(str(argument)) for argument in arguments) > SIZE * 16:
            return UNKNOWN
        if name == "format" and (":" in owner or "." in owner):
            return UNKNOWN  # an unbounded width, an attribute of the interpreter
    return getattr(owner, name)(*arguments, **options)
