"""Numbers from text and to text, by the rules of JavaScript, which GitHub's documentation refers to."""

from __future__ import annotations

import math
import re
from decimal import ROUND_HALF_UP, Context, Decimal

_SPACE = "\t\n\v\f\r \u00a0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000\ufeff"
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_RADIX = {"0x": (16, re.compile(r"[0-9a-fA-F]+")), "0o": (8, re.compile(r"[0-7]+")), "0b": (2, re.compile(r"[01]+"))}
_INFINITE = {"Infinity": math.inf, "+Infinity": math.inf, "-Infinity": -math.inf}
_FRACTION = Decimal("1e-15")
_EXACT = Context(prec=60)


def parsed(text: str) -> float:
    """What `text` is as a number: 0 for an empty one, NaN for what is no number."""
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
    """The nearest number of the language, infinite where Python's is too large."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def shown(number: float) -> str:
    """As GitHub converts a number to text: at most 15 digits of a fraction."""
    if math.isfinite(number) and abs(number) < 1e21:
        number = float(Decimal(number).quantize(_FRACTION, ROUND_HALF_UP, _EXACT))
    return exact(number)


def exact(number: float) -> str:
    """The shortest text that is read as the same number again (ECMA-262, Number::toString)."""
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
