"""`toJSON` and `fromJSON`: strict JSON, laid out as GitHub does it, bounded in size and nesting."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence

from agent.ci.expressions import numbers
from agent.ci.expressions.errors import NESTING_LIMIT, ExpressionError, within
from agent.ci.expressions.values import Known, Unknown, Value


def written(value: Known) -> str:
    """JSON with two spaces for each level. Raises `ExpressionError` where the value is too large or too deep."""
    size = 0
    parts: list[str] = []
    for part in _parts(value, 0):
        size += len(part)
        within(size)
        parts.append(part)
    return "".join(parts)


def read(text: str) -> Known:
    """The value of a JSON text; of keys that differ by case alone the first counts. Raises `ExpressionError`."""
    if not text.strip():
        raise ExpressionError("fromJSON is given an empty text")
    try:
        return _settled(json.loads(text, parse_int=float, parse_float=float, parse_constant=_refuse), 0)
    except json.JSONDecodeError as error:
        raise ExpressionError(
            f"fromJSON is given a text that is not JSON ({error.msg} at its character {error.pos + 1})"
        ) from None
    except RecursionError:
        raise _too_deep() from None


def _parts(value: Value, depth: int) -> Iterator[str]:
    if depth > NESTING_LIMIT:
        raise _too_deep()
    if isinstance(value, str):
        yield json.dumps(value, ensure_ascii=False)
    elif value is None or isinstance(value, bool):
        yield json.dumps(value)
    elif isinstance(value, int | float):
        real = numbers.real(value)
        yield numbers.exact(real) if math.isfinite(real) else "null"
    elif isinstance(value, Unknown):
        raise TypeError(value)  # callers have checked
    else:
        opening, closing = "{}" if isinstance(value, Mapping) else "[]"
        yield opening
        yield from _members(value, depth + 1)
        yield ("\n" + "  " * depth + closing) if value else closing


def _members(value: Mapping[str, Value] | Sequence[Value], depth: int) -> Iterator[str]:
    between = "\n" + "  " * depth
    named = value.items() if isinstance(value, Mapping) else ((None, member) for member in value)
    for key, member in named:
        yield between if key is None else f"{between}{json.dumps(key, ensure_ascii=False)}: "
        yield from _parts(member, depth)
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
    """Without halves of surrogate pairs, which JSON can name and no file or process can take."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _refuse(constant: str) -> float:
    raise ExpressionError(f"fromJSON is given a text that is not JSON ({constant} is no number there)")


def _too_deep() -> ExpressionError:
    return ExpressionError(f"the value is nested deeper than {NESTING_LIMIT} levels")
