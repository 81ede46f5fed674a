"""The values of the language, how it converts and compares them, and what an expression can use and cost.

Conversion and comparison are loose, and text is compared without regard to case. Logic is three-valued: an `Unknown` has a type
of its own, so no caller can confuse it with a value. The limits on syntax are in the parser.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Literal, TypeAlias

_SHOWN = 60  # characters of the text, around the position
TEXT_LIMIT = 1 << 20  # characters of one text; GitHub's own limit is the same number of bytes of memory
_WORK_LIMIT = 4 << 20  # characters and members that are examined
NESTING_LIMIT = 100  # of JSON


class ExpressionError(ValueError):
    """An expression that GitHub would refuse too, or that would cost too much here.

    `reason` is a clause; `position` counts characters of `text` from 1. `placed` adds a missing position.
    """

    def __init__(self, reason: str, text: str = "", position: int = 0) -> None:
        self.reason, self.position = reason, position
        super().__init__(f"{reason}, at character {position} of {_around(text, position)}" if position else reason)

    def placed(self, text: str, position: int) -> ExpressionError:
        return self if self.position else ExpressionError(self.reason, text, position)


def quoted(text: str) -> str:
    """Hostile text, shortened and on one line."""
    return repr(text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…")


def _around(text: str, position: int) -> str:
    start = max(0, min(position - 1 - _SHOWN // 2, len(text) - _SHOWN))
    shown = text[start : start + _SHOWN]
    return repr(("…" if start else "") + shown + ("…" if start + _SHOWN < len(text) else ""))


class WorkMeter:
    """Counts the work of one evaluation or of one template."""

    def __init__(self) -> None:
        self._left = _WORK_LIMIT

    def spend(self, work: int) -> None:
        """Raises `ExpressionError` once the evaluation has cost too much."""
        self._left -= work
        if self._left < 0:
            raise ExpressionError("the evaluation takes too much work")


def within(size: int) -> None:
    """Raises `ExpressionError` for a text of too many characters."""
    if size > TEXT_LIMIT:
        raise ExpressionError(f"the result is longer than {TEXT_LIMIT} characters")


@dataclass(frozen=True, slots=True)
class Unknown:
    """A value that only GitHub knows.

    `what` is its name in the workflow ("secrets.TOKEN"). `truth` is its truth value, if that much is known.
    """

    what: str
    truth: bool | None = None


Value: TypeAlias = "bool | float | str | Mapping[str, Value] | Sequence[Value] | Unknown | None"
Known: TypeAlias = "bool | float | str | Mapping[str, Value] | Sequence[Value] | None"
Primitive: TypeAlias = bool | float | str | None


class Filtered(tuple[Value, ...]):
    """The result of the object filter `.*`: an array whose properties and indexes are those of its members."""


Status: TypeAlias = Literal["success", "failure", "cancelled"]


Files: TypeAlias = Callable[[Sequence[str]], str | Unknown]
"""What `hashFiles` returns for patterns: "" if no file matches (`hash_files.MatchedFiles`)."""


def no_files(patterns: Sequence[str], /) -> Unknown:
    return Unknown("hashFiles")


@dataclass(frozen=True, slots=True)
class Scope:
    """The `contexts` by name. An expression can use only these; names and keys are case-insensitive.

    A context, or any part of one, can be `Unknown`. Whole numbers can be `int`.
    """

    contexts: Mapping[str, Value]
    status: Status = "success"
    files: Files = no_files


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
        return value != 0 and not math.isnan(real(value))
    return True


def number(value: Known) -> float:
    if value is None:
        return 0.0
    if isinstance(value, str):
        return parsed_number(value)
    return real(value) if isinstance(value, int | float) else math.nan


def text(value: Known) -> str:
    """The text that GitHub writes for a value; for an array or object, only "Array" or "Object"."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return shown_number(real(value))
    return "Object" if isinstance(value, Mapping) else "Array"


def upper(value: str) -> str:
    """`value` in upper case, for comparing without regard to case; as on GitHub, the dotless ı stays as it is."""
    return "ı".join(part.upper() for part in value.split("ı"))


def equal(left: Known, right: Known) -> bool:
    """Loose equality, as `==`: different types are compared as numbers; an array or object equals only itself."""
    if isinstance(left, str) and isinstance(right, str):
        return upper(left) == upper(right)
    if left is None and right is None:
        return True
    if is_primitive(left) and is_primitive(right):
        return number(left) == number(right)
    return left is right


def compare(left: Known, operator: Literal["<", ">"], right: Known) -> bool:
    """Loose order, as `<` and `>`: never true of arrays, objects, and values that are not numbers."""
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


# Numbers from text and to text, by the rules of JavaScript, which GitHub's documentation refers to.
_SPACE = "\t\n\v\f\r \u00a0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000\ufeff"
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_RADIX = {"0x": (16, re.compile(r"[0-9a-fA-F]+")), "0o": (8, re.compile(r"[0-7]+")), "0b": (2, re.compile(r"[01]+"))}
_INFINITE = {"Infinity": math.inf, "+Infinity": math.inf, "-Infinity": -math.inf}
_FRACTION = Decimal("1e-15")
_EXACT = Context(prec=60)


def parsed_number(text: str) -> float:
    """`text` as a number: 0 if it is empty, NaN if it is not a number."""
    text = text.strip(_SPACE)
    if not text:
        return 0.0
    if text in _INFINITE:
        return _INFINITE[text]
    base, digits = _RADIX.get(text[:2].lower(), (0, _DECIMAL))
    if base and digits.fullmatch(text, 2):
        return real(int(text[2:], base))
    return float(text) if digits is _DECIMAL and _DECIMAL.fullmatch(text) else math.nan


def real(number: float) -> float:
    """The nearest number of the language; infinite if Python's number is too large."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def shown_number(number: float) -> str:
    """The text that GitHub writes for a number, with at most 15 decimal places."""
    if math.isfinite(number) and abs(number) < 1e21:
        number = float(Decimal(number).quantize(_FRACTION, ROUND_HALF_UP, _EXACT))
    return exact(number)


def exact(number: float) -> str:
    """The shortest text that reads back as the same number (ECMA-262, Number::toString)."""
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    if number == 0:
        return "0"
    sign, numerals, exponent = Decimal(repr(number)).as_tuple()
    assert isinstance(exponent, int)  # it is finite
    bare = "".join(map(str, numerals))
    point = len(bare) + exponent  # where the decimal point is, in digits from the left
    digits = bare.rstrip("0")
    if len(digits) <= point <= 21:
        text = digits.ljust(point, "0")
    elif 0 < point <= 21:
        text = f"{digits[:point]}.{digits[point:]}"
    elif -6 < point <= 0:
        text = f"0.{'0' * -point}{digits}"
    else:
        text = f"{digits[0]}{'.' * (len(digits) > 1)}{digits[1:]}e{point - 1:+d}"
    return "-" + text if sign else text
