"""Works out values of Python source without running it: literals, names, f-strings, a few pure functions.

What is not known is `UNKNOWN`, never a guess. Knows no runner.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

SIZE = 64 * 1024  # characters or items of one value
_DEPTH = 60


class Unknown:
    """A value that only running the file would tell."""

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN = Unknown()
_COMPARISONS: Mapping[type[ast.cmpop], Callable[[object, object], object]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.In: lambda one, many: one in many,  # type: ignore[operator]
    ast.NotIn: lambda one, many: one not in many,  # type: ignore[operator]
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
}
_METHODS = ("join", "split", "strip", "lower", "upper", "replace", "format", "startswith", "endswith", "removeprefix", "copy")


@dataclass
class Scope:
    """Names and what they stand for. `call` gives the value of a call that this file does not know, by its dotted name."""

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


def value(node: ast.expr, scope: Scope, depth: int = 0) -> object:
    """The value of an expression, or `UNKNOWN`."""
    if depth > _DEPTH:
        return UNKNOWN
    try:
        found = _value(node, scope, depth + 1)
    except (TypeError, ValueError, KeyError, IndexError, AttributeError, OverflowError):
        return UNKNOWN
    return UNKNOWN if isinstance(found, (str, list, tuple, dict)) and len(found) > SIZE else found


def _value(node: ast.expr, scope: Scope, depth: int) -> object:
    def of(inner: ast.expr) -> object:
        return value(inner, scope, depth)

    match node:
        case ast.Constant(value=constant):
            return constant
        case ast.Name(id=name):
            return scope.names.get(name, UNKNOWN)
        case ast.Attribute():
            return scope.names.get(dotted(node), UNKNOWN)
        case ast.List() | ast.Tuple() | ast.Set():
            return _items(node.elts, scope, depth)
        case ast.Dict(keys=keys, values=values):
            pairs = {}
            for key, item in zip(keys, values, strict=True):
                made = of(item)
                if key is None:
                    if not isinstance(made, dict):
                        return UNKNOWN
                    pairs.update(made)
                else:
                    pairs[of(key)] = made
            return UNKNOWN if UNKNOWN in pairs else pairs
        case ast.JoinedStr(values=parts):
            texts = [_text(part, scope, depth) for part in parts]
            return UNKNOWN if any(text is None for text in texts) else "".join(text for text in texts if text is not None)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            one, other = of(left), of(right)
            if isinstance(one, list) and isinstance(other, list):
                return one + other
            return one + other if isinstance(one, str) and isinstance(other, str) else UNKNOWN
        case ast.BoolOp(op=kind, values=values):
            found: object = UNKNOWN
            for part in values:
                found = of(part)
                if isinstance(found, Unknown) or bool(found) is isinstance(kind, ast.Or):
                    return found
            return found
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            found = of(operand)
            return UNKNOWN if isinstance(found, Unknown) else not found
        case ast.Compare(left=left, ops=[how], comparators=[right]) if type(how) in _COMPARISONS:
            one, other = of(left), of(right)
            return UNKNOWN if isinstance(one, Unknown) or isinstance(other, Unknown) else _COMPARISONS[type(how)](one, other)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            condition = of(test)
            return UNKNOWN if isinstance(condition, Unknown) else of(body if condition else orelse)
        case ast.Subscript(value=owner, slice=ast.Slice(lower=lower, upper=upper, step=None)):
            whole = of(owner)
            first, last = (None if end is None else of(end) for end in (lower, upper))
            if not isinstance(first, int | None) or not isinstance(last, int | None):
                return UNKNOWN
            return whole[first:last] if isinstance(whole, (list, str)) else UNKNOWN
        case ast.Subscript(value=owner, slice=index):
            if dotted(owner) == "os.environ":
                return scope.env.get(str(of(index)), UNKNOWN)
            whole = of(owner)
            return whole[of(index)] if isinstance(whole, (list, dict)) else UNKNOWN  # type: ignore[call-overload]
        case ast.Call():
            return _call(node, scope, depth)
    return UNKNOWN


def _items(nodes: list[ast.expr], scope: Scope, depth: int) -> object:
    items: list[object] = []
    for node in nodes:
        if isinstance(node, ast.Starred):
            inner = value(node.value, scope, depth)
            if not isinstance(inner, list):
                return UNKNOWN
            items += inner
        else:
            items.append(value(node, scope, depth))
    return items


def _text(part: ast.expr, scope: Scope, depth: int) -> str | None:
    if isinstance(part, ast.Constant):
        return str(part.value)
    if not isinstance(part, ast.FormattedValue) or part.format_spec is not None:
        return None
    found = value(part.value, scope, depth)
    if isinstance(found, Unknown) or len(shown := repr(found) if part.conversion == ord("r") else str(found)) > SIZE:
        return None
    return shown


def _call(node: ast.Call, scope: Scope, depth: int) -> object:
    arguments = _items(node.args, scope, depth)
    options = {word.arg: value(word.value, scope, depth) for word in node.keywords if word.arg}
    if not isinstance(arguments, list):
        return UNKNOWN
    name = dotted(node.func)
    if name in ("os.environ.get", "os.getenv") and arguments:
        return scope.env.get(str(arguments[0]), arguments[1] if len(arguments) > 1 else None)
    if name in ("list", "tuple", "sorted") and len(arguments) == 1 and isinstance(arguments[0], list):
        return sorted(arguments[0]) if name == "sorted" else list(arguments[0])
    if name == "str" and len(arguments) == 1 and isinstance(arguments[0], str | int):
        return str(arguments[0])
    if name in ("Path", "pathlib.Path") and len(arguments) == 1 and isinstance(arguments[0], str):
        return arguments[0]
    if name == "shlex.split" and len(arguments) == 1 and isinstance(arguments[0], str):
        return arguments[0].split() if "'" not in arguments[0] and '"' not in arguments[0] else UNKNOWN
    if name and not isinstance(found := scope.call(name, arguments, options), Unknown):
        return found
    if isinstance(node.func, ast.Attribute) and node.func.attr in (*_METHODS, "get"):
        owner = value(node.func.value, scope, depth)
        known = not any(isinstance(argument, Unknown) for argument in arguments)
        if known and (
            (isinstance(owner, str) and node.func.attr != "get") or (isinstance(owner, dict) and node.func.attr == "get")
        ):
            if node.func.attr == "replace" and len(owner) * max(len(str(argument)) for argument in arguments) > SIZE * 16:
                return UNKNOWN
            if node.func.attr == "format" and (":" in owner or "." in owner):
                return UNKNOWN  # a width without end, an attribute of the interpreter
            return getattr(owner, node.func.attr)(*arguments, **options)
    return UNKNOWN
