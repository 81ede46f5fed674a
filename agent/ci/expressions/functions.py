"""The functions of the language. `toJSON` and `fromJSON` are strict, and bounded in size and nesting."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from agent.ci.expressions.values import (
    NESTING_LIMIT,
    ExpressionError,
    Known,
    Scope,
    Unknown,
    Value,
    WorkMeter,
    equal,
    exact,
    is_primitive,
    quoted,
    real,
    text,
    unknown_in,
    upper,
    within,
)

Arguments: TypeAlias = Sequence[Value]
_MANY = 255
# GitHub ignores whatever is between the number and the closing brace.
_PART = re.compile(r"(?P<plain>[^{}]+)|(?P<brace>\{\{|\}\})|\{(?P<number>[0-9]+)[^}]*\}")


class _FunctionSpec(NamedTuple):
    least: int
    most: int
    call: Callable[[Arguments, Scope], Value]


def refusal(name: str, count: int) -> str | None:
    """Why the function `name` (in lower case) cannot be called with `count` arguments, as a clause."""
    function = _FUNCTIONS.get(name)
    if function is None:
        return "is not a function"
    if count < function.least:
        return f"takes at least {function.least} arguments but got {count}"
    if count > function.most:
        return f"takes at most {function.most} arguments but got {count}"
    if name == "case" and count % 2 == 0:
        return "takes pairs of a condition and a value, then a default value"
    return None


def call(name: str, arguments: Arguments, scope: Scope, meter: WorkMeter) -> Value:
    """Call the function `name`. Raises `ExpressionError` without a position."""
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


def _both(arguments: Arguments, holds: Callable[[str, str], bool]) -> Value:
    if any(not is_primitive(a) and not isinstance(a, Unknown) for a in arguments):
        return False
    texts = _texts(arguments)
    return texts if isinstance(texts, Unknown) else holds(upper(texts[0]), upper(texts[1]))


def _texts(values: Arguments) -> list[str] | Unknown:
    """The values as text, or the first unknown one."""
    texts: list[str] = []
    for value in values:
        if isinstance(value, Unknown):
            return Unknown(value.what)
        texts.append(text(value))
    return texts


def _format(arguments: Arguments, scope: Scope) -> Value:
    """Replace `{0}` by the first value and `{{` by a brace; unknown if a used value is. Raises `ExpressionError`."""
    values = arguments[1:]
    if isinstance(arguments[0], Unknown):
        return Unknown(arguments[0].what)
    template = text(arguments[0])
    parts: list[str] = []
    at = size = 0
    while at < len(template):
        found = _PART.match(template, at)
        if found is None:
            raise ExpressionError(f"the format string {quoted(template)} has an unmatched brace or a field without a number")
        part = found["plain"] or (found["brace"] or "")[:1]
        if found["number"] is not None:
            value = _numbered(found["number"], values)
            if isinstance(value, Unknown):
                return Unknown(value.what)
            part = text(value)
        size += len(part)
        within(size)
        parts.append(part)
        at = found.end()
    return "".join(parts)


def _numbered(digits: str, values: Sequence[Value]) -> Value:
    short = digits.lstrip("0") or "0"
    if len(short) > 4 or int(short) >= len(values):
        raise ExpressionError(f"the format string uses value {quoted(digits)[1:-1]} (counted from 0) of {len(values)}")
    return values[int(short)]


def _join(arguments: Arguments, scope: Scope) -> Value:
    members, separator = arguments[0], arguments[1] if len(arguments) > 1 else ","
    if isinstance(members, Unknown):
        return Unknown(members.what)
    if is_primitive(members):
        return text(members)
    if isinstance(members, Mapping) or not isinstance(members, Sequence):
        return ""
    texts = _texts(members)
    if isinstance(texts, Unknown):
        return texts
    if isinstance(separator, Unknown):
        return Unknown(separator.what) if len(members) > 1 else "".join(texts)
    between = text(separator) if is_primitive(separator) else ","
    within(sum(map(len, texts)) + len(between) * max(0, len(texts) - 1))
    return between.join(texts)


def _to_json(arguments: Arguments, scope: Scope) -> Value:
    for unknown in unknown_in(arguments, NESTING_LIMIT + 2):
        return Unknown(unknown.what)
    value = arguments[0]
    assert not isinstance(value, Unknown)
    return to_json(value)


def _from_json(arguments: Arguments, scope: Scope) -> Value:
    value = arguments[0]
    return Unknown(value.what) if isinstance(value, Unknown) else from_json(text(value))


def _case(arguments: Arguments, scope: Scope) -> Value:
    for condition, value in zip(arguments[0:-1:2], arguments[1::2], strict=True):
        if isinstance(condition, Unknown):
            return Unknown(condition.what)
        if not isinstance(condition, bool):
            raise ExpressionError("a condition of case is neither true nor false")
        if condition:
            return value
    return arguments[-1]


def _hash_files(arguments: Arguments, scope: Scope) -> Value:
    patterns = _texts(arguments)
    return patterns if isinstance(patterns, Unknown) else scope.files(patterns)


_FUNCTIONS: Mapping[str, _FunctionSpec] = {
    "case": _FunctionSpec(3, _MANY, _case),
    "contains": _FunctionSpec(2, 2, _contains),
    "endswith": _FunctionSpec(2, 2, lambda arguments, scope: _both(arguments, str.endswith)),
    "format": _FunctionSpec(1, _MANY, _format),
    "fromjson": _FunctionSpec(1, 1, _from_json),
    "hashfiles": _FunctionSpec(1, _MANY, _hash_files),
    "join": _FunctionSpec(1, 2, _join),
    "startswith": _FunctionSpec(2, 2, lambda arguments, scope: _both(arguments, str.startswith)),
    "tojson": _FunctionSpec(1, 1, _to_json),
    "always": _FunctionSpec(0, 0, lambda arguments, scope: True),
    "cancelled": _FunctionSpec(0, 0, lambda arguments, scope: scope.status == "cancelled"),
    "failure": _FunctionSpec(0, 0, lambda arguments, scope: scope.status == "failure"),
    "success": _FunctionSpec(0, 0, lambda arguments, scope: scope.status == "success"),
}
STATUS_FUNCTIONS = frozenset({"always", "cancelled", "failure", "success"})


def to_json(value: Known) -> str:
    """JSON indented by two spaces. Raises `ExpressionError` if the value is too large or too deep."""
    size = 0
    parts: list[str] = []
    for part in _json_parts(value, 0):
        size += len(part)
        within(size)
        parts.append(part)
    return "".join(parts)


def from_json(text: str) -> Known:
    """The value of a JSON text. If keys differ only by case, the first counts. Raises `ExpressionError`."""
    if not text.strip():
        raise ExpressionError("the argument of fromJSON is empty")
    try:
        return _settled(json.loads(text, parse_int=float, parse_float=float, parse_constant=_refuse), 0)
    except json.JSONDecodeError as error:
        raise ExpressionError(
            f"the argument of fromJSON is not valid JSON ({error.msg} at character {error.pos + 1})"
        ) from None
    except RecursionError:
        raise _too_deep() from None


def _json_parts(value: Value, depth: int) -> Iterator[str]:
    if depth > NESTING_LIMIT:
        raise _too_deep()
    if isinstance(value, str):
        yield json.dumps(value, ensure_ascii=False)
    elif value is None or isinstance(value, bool):
        yield json.dumps(value)
    elif isinstance(value, int | float):
        yield exact(real(value)) if math.isfinite(real(value)) else "null"
    elif isinstance(value, Unknown):
        raise TypeError(value)  # excluded by the callers
    else:
        opening, closing = "{}" if isinstance(value, Mapping) else "[]"
        yield opening
        yield from _json_members(value, depth + 1)
        yield ("\n" + "  " * depth + closing) if value else closing


def _json_members(value: Mapping[str, Value] | Sequence[Value], depth: int) -> Iterator[str]:
    between = "\n" + "  " * depth
    named = value.items() if isinstance(value, Mapping) else ((None, member) for member in value)
    for key, member in named:
        yield between if key is None else f"{between}{json.dumps(key, ensure_ascii=False)}: "
        yield from _json_parts(member, depth)
        between = ",\n" + "  " * depth


def _settled(value: object, depth: int) -> Known:
    if depth > NESTING_LIMIT:
        raise _too_deep()
    if isinstance(value, dict):
        members: dict[str, Value] = {}
        met: set[str] = set()
        for key, member in value.items():
            if key.lower() not in met:
                met.add(key.lower())
                members[_paired(key)] = _settled(member, depth + 1)
        return members
    if isinstance(value, list):
        return [_settled(member, depth + 1) for member in value]
    if isinstance(value, str):
        return _paired(value)
    assert value is None or isinstance(value, bool | float)
    return value


def _paired(text: str) -> str:
    """`text` with lone surrogates replaced: JSON can express them, but files and processes cannot take them."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _refuse(constant: str) -> float:
    raise ExpressionError(f"the argument of fromJSON is not valid JSON ({constant} is not a JSON number)")


def _too_deep() -> ExpressionError:
    return ExpressionError(f"the value is nested deeper than {NESTING_LIMIT} levels")
