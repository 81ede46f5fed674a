"""Reads small decisions that a model writes as JSON: the whole answer, or else the text from its first to its last brace."""

from __future__ import annotations

import json
import math
from typing import Any

LONGEST = 100_000  # characters that are searched for an object


def read_object(text: str) -> dict[str, Any] | None:
    """The object in an answer, or None."""
    first, last = text.find("{", 0, LONGEST), text.rfind("}", 0, LONGEST)
    for candidate in (text.strip()[:LONGEST], text[first : last + 1] if 0 <= first < last else ""):
        try:
            found = json.loads(candidate, strict=False)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict):
            return found
    return None


def line(value: object, limit: int) -> str:
    """A text as one line; "" if it is not a text."""
    return " ".join(value.split())[:limit] if isinstance(value, str) else ""


def lines(value: object, most: int, limit: int) -> tuple[str, ...]:
    """The first few texts of a list, or a single text as a list; each is cut to a limit."""
    given = value if isinstance(value, list) else [value]
    return tuple(text for each in given[: 2 * most] if (text := line(each, limit)))[:most]


def fraction(value: object) -> float:
    """A confidence as models write it: 0.8, "80%", 80; 0.5 if it is not a number."""
    try:
        number = float(str(value).strip().removesuffix("%"))
    except ValueError:
        return 0.5
    if not math.isfinite(number):
        return 0.5
    return min(1.0, max(0.0, number / 100 if number > 1 else number))


def truth(value: object) -> bool | None:
    """Yes or no as models write it: true, "yes", "accepted"; None if it is neither."""
    words = {"true": True, "yes": True, "accept": True, "accepted": True, "approve": True}
    words |= {"false": False, "no": False, "reject": False, "rejected": False}
    return words.get(str(value).strip().lower())
