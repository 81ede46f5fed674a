"""The functions of the language."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from agent.ci.expressions import jsontext
from agent.ci.expressions.errors import NESTING_LIMIT, ExpressionError, Meter, quoted, within
from agent.ci.expressions.scope import Scope
from agent.ci.expressions.values import Unknown, Value, equal, is_primitive, text, unknown_in, upper

Arguments: TypeAlias = Sequence[Value]
_MANY = 255
# GitHub reads past whatever stands between the number and the closing brace.
_PART = re.compile(r"(?P<plain>[^{}]+)|(?P<brace>\{\{|\}\})|\{(?P<number>[0-9]+)[^}]*\}")


@dataclass(frozen=True, slots=True)
class _FunctionSpec:
    least: int
    most: int
    call: Callable[[Arguments, Scope], Value]


def refusal(name: str, count: int) -> str | None:
    """Why the function `name` (in lower case) cannot be called with `count` arguments, as a clause."""
    function = _FUNCTIONS.get(name)
    if function is None:
        return "is no function"
    if count < function.least:
        return f"takes at least {function.least} arguments and is given {count}"
    if count > function.most:
        return f"takes at most {function.most} arguments and is given {count}"
    if name == "case" and count % 2 == 0:
        return "takes pairs of a condition and a value, and a value for every other case"
    return None


def call(name: str, arguments: Arguments, scope: Scope, meter: Meter) -> Value:
    """Raises `ExpressionError` without a position."""
    meter.spend(sum(len(a) for a in arguments if isinstance(a, Sequence)))
    value = _FUNCTIONS[name].call(arguments, scope)
    meter.spend(len(value) if isinstance(value, Sequence) else 0)
    return value


def _contains(arguments: Arguments, scope: Scope) -> Value:
    where, what = arguments
    if isinstance(where, Unknown):
        return Unknown(where.what)
    if is_primitive(where):
        if isinstance(what, Unknown):
            return Unknown(what.what)
        return is_primitive(what) and text(what).lower() in text(where).lower()
    if isinstance(where, Mapping) or not isinstance(where, Sequence):
        return False
    doubt: Unknown | None = None
    for member in where:
        if isinstance(member, Unknown) or isinstance(what, Unknown):
            doubt = doubt or next(unknown_in([what, member], 1))
        elif equal(what, member):
            return True
    return Unknown(doubt.what) if doubt else False


def _starts_with(arguments: Arguments, scope: Scope) -> Value:
    return _both(arguments, lambda where, what: upper(where).startswith(upper(what)))


def _ends_with(arguments: Arguments, scope: Scope) -> Value:
    return _both(arguments, lambda where, what: upper(where).endswith(upper(what)))


def _both(arguments: Arguments, holds: Callable[[str, str], bool]) -> Value:
    if any(not is_primitive(a) and not isinstance(a, Unknown) for a in arguments):
        return False
    texts: list[str] = []
    for argument in arguments:
        if isinstance(argument, Unknown):
            return Unknown(argument.what)
        texts.append(text(argument))
    return holds(texts[0], texts[1])


def _format(arguments: Arguments, scope: Scope) -> Value:
    template, *values = arguments
    made = template if isinstance(template, Unknown) else _formatted(text(template), values)
    return Unknown(made.what) if isinstance(made, Unknown) else made


def _formatted(template: str, values: Sequence[Value]) -> str | Unknown:
    """Replace `{0}` by the first value and `{{` by a brace; unknown where a used value is. Raises `ExpressionError`."""
    parts: list[str] = []
    at = size = 0
    while at < len(template):
        found = _PART.match(template, at)
        if found is None:
            raise ExpressionError(f"format is given {quoted(template)}, which has a brace without its partner or number")
        part = found["plain"] or (found["brace"] or "")[:1]
        if found["number"] is not None:
            value = _numbered(found["number"], values)
            if isinstance(value, Unknown):
                return value
            part = text(value)
        size += len(part)
        within(size)
        parts.append(part)
        at = found.end()
    return "".join(parts)


def _numbered(digits: str, values: Sequence[Value]) -> Value:
    short = digits.lstrip("0") or "0"
    if len(short) > 4 or int(short) >= len(values):
        raise ExpressionError(f"format is to put in value {quoted(digits)[1:-1]}, counted from 0, and is given {len(values)}")
    return values[int(short)]


def _join(arguments: Arguments, scope: Scope) -> Value:
    members, separator = arguments[0], arguments[1] if len(arguments) > 1 else ","
    if isinstance(members, Unknown):
        return Unknown(members.what)
    if is_primitive(members):
        return text(members)
    if isinstance(members, Mapping) or not isinstance(members, Sequence):
        return ""
    for unknown in unknown_in([*members, *([separator] if len(members) > 1 else [])], 1):
        return Unknown(unknown.what)
    between = text(separator) if is_primitive(separator) and not isinstance(separator, Unknown) else ","
    # None is unknown; the check is for mypy.
    texts = [text(member) for member in members if not isinstance(member, Unknown)]
    within(sum(map(len, texts)) + len(between) * max(0, len(texts) - 1))
    return between.join(texts)


def _to_json(arguments: Arguments, scope: Scope) -> Value:
    for unknown in unknown_in(arguments, NESTING_LIMIT + 2):
        return Unknown(unknown.what)
    value = arguments[0]
    assert not isinstance(value, Unknown)
    return jsontext.written(value)


def _from_json(arguments: Arguments, scope: Scope) -> Value:
    value = arguments[0]
    return Unknown(value.what) if isinstance(value, Unknown) else jsontext.read(text(value))


def _case(arguments: Arguments, scope: Scope) -> Value:
    for condition, value in zip(arguments[0:-1:2], arguments[1::2], strict=True):
        if isinstance(condition, Unknown):
            return Unknown(condition.what)
        if not isinstance(condition, bool):
            raise ExpressionError("case is given a condition that is neither true nor false")
        if condition:
            return value
    return arguments[-1]


def _hash_files(arguments: Arguments, scope: Scope) -> Value:
    patterns: list[str] = []
    for argument in arguments:
        if isinstance(argument, Unknown):
            return Unknown(argument.what)
        patterns.append(text(argument))
    return scope.files(patterns)


_FUNCTIONS: Mapping[str, _FunctionSpec] = {
    "case": _FunctionSpec(3, _MANY, _case),
    "contains": _FunctionSpec(2, 2, _contains),
    "endswith": _FunctionSpec(2, 2, _ends_with),
    "format": _FunctionSpec(1, _MANY, _format),
    "fromjson": _FunctionSpec(1, 1, _from_json),
    "hashfiles": _FunctionSpec(1, _MANY, _hash_files),
    "join": _FunctionSpec(1, 2, _join),
    "startswith": _FunctionSpec(2, 2, _starts_with),
    "tojson": _FunctionSpec(1, 1, _to_json),
    "always": _FunctionSpec(0, 0, lambda arguments, scope: True),
    "cancelled": _FunctionSpec(0, 0, lambda arguments, scope: scope.status == "cancelled"),
    "failure": _FunctionSpec(0, 0, lambda arguments, scope: scope.status == "failure"),
    "success": _FunctionSpec(0, 0, lambda arguments, scope: scope.status == "success"),
}
STATUS_FUNCTIONS = frozenset({"always", "cancelled", "failure", "success"})
