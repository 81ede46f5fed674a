"""The values of the language, and how it converts and compares them: loosely, and text without regard to case.

Three-valued: types tell an `Unknown` from a value, so no caller can confuse them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from agent.ci.expressions import numbers


@dataclass(frozen=True, slots=True)
class Unknown:
    """What only GitHub knows.

    `what` is its name in the workflow ("secrets.TOKEN"). `truth` is its truth value, if that much is known.
    """

    what: str
    truth: bool | None = None


Value: TypeAlias = "bool | float | str | Mapping[str, Value] | Sequence[Value] | Unknown | None"
Known: TypeAlias = "bool | float | str | Mapping[str, Value] | Sequence[Value] | None"
Primitive: TypeAlias = bool | float | str | None


class Filtered(tuple[Value, ...]):
    """The result of the object filter `.*`: an array whose properties and indexes are those of its members."""


def is_primitive(value: Value) -> bool:
    return value is None or isinstance(value, str | float | int)


def truth(value: Value) -> bool | None:
    """Whether `value` counts as true; None if unknown."""
    if isinstance(value, Unknown):
        return value.truth
    if isinstance(value, str):
        return value != ""
    if value is None or isinstance(value, bool):
        return bool(value)
    if isinstance(value, int | float):
        return value != 0 and not math.isnan(numbers.real(value))
    return True


def number(value: Known) -> float:
    if value is None:
        return 0.0
    if isinstance(value, str):
        return numbers.parsed(value)
    return numbers.real(value) if isinstance(value, int | float) else math.nan


def text(value: Known) -> str:
    """As GitHub writes a value into text; arrays and objects only by their name."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return numbers.shown(numbers.real(value))
    return "Object" if isinstance(value, Mapping) else "Array"


def upper(value: str) -> str:
    """For comparing without regard to case; GitHub leaves the dotless ı as it is."""
    return "ı".join(part.upper() for part in value.split("ı"))


def equal(left: Known, right: Known) -> bool:
    """Loosely, as `==`: different types are compared as numbers; an array or object equals only itself."""
    if isinstance(left, str) and isinstance(right, str):
        return upper(left) == upper(right)
    if left is None and right is None:
        return True
    if is_primitive(left) and is_primitive(right):
        return number(left) == number(right)
    return left is right


def compare(left: Known, operator: Literal["<", ">"], right: Known) -> bool:
    """Loosely, as `<` and `>`: never true of arrays, objects and what is no number."""
    if not (is_primitive(left) and is_primitive(right)) or (left is None and right is None):
        return False
    if isinstance(left, str) and isinstance(right, str):
        first, second = _order(left), _order(right)
        return first < second if operator == "<" else first > second
    a, b = number(left), number(right)
    return a < b if operator == "<" else a > b


def unknown_in(value: Value, depth: int) -> Iterator[Unknown]:
    """Every `Unknown` in a value, down to `depth` levels below it."""
    if isinstance(value, Unknown):
        yield value
    elif depth and isinstance(value, Mapping):
        for member in value.values():
            yield from unknown_in(member, depth - 1)
    elif depth and isinstance(value, Sequence) and not isinstance(value, str):
        for member in value:
            yield from unknown_in(member, depth - 1)


def _order(value: str) -> bytes:
    # Order is by UTF-16 units, where rare characters come before some common ones.
    return upper(value).encode("utf-16-be", "surrogatepass")
