"""A model's small decisions as JSON: read as they are, or salvaged once from the widest braces of what is more than that."""

from __future__ import annotations

import json
import math
from typing import Any

LONGEST = 100_000  # characters that are looked through for an object


def read_object(text: str) -> dict[str, Any] | None:
    """The object in an answer, or None where there is none."""
    first, last = text.find("{", 0, LONGEST), text.rfind("}", 0, LONGEST)
    for candidate in (text.strip()[:LONGEST], text[first : last + 1] if 0 <= first < last else ""):
        try:
            told = json.loads(candidate, strict=False)
        except (ValueError, RecursionError):
            continue
        if isinstance(told, dict):
            return told
    return None


def line(told: object, limit: int) -> str:
    """A text as one line; "" for what is no text."""
    return " ".join(told.split())[:limit] if isinstance(told, str) else ""


def lines(told: object, most: int, limit: int) -> tuple[str, ...]:
    """A few short texts, whether the model gave a list or one."""
    given = told if isinstance(told, list) else [told]
    return tuple(text for each in given[: 2 * most] if (text := line(each, limit)))[:most]


def fraction(told: object) -> float:
    """A confidence as models write it: 0.8, "80%", 80; a half for what is none."""
    try:
        number = float(str(told).strip().removesuffix("%"))
    except ValueError:
        return 0.5
    if not math.isfinite(number):
        return 0.5
    return min(1.0, max(0.0, number / 100 if number > 1 else number))


def truth(told: object) -> bool | None:
    """Yes or no as models write it: true, "yes", "accepted"; None for what is neither."""
    words = {"true": True, "yes": True, "accept": True, "accepted": True, "approve": True}
    words |= {"false": False, "no": False, "reject": False, "rejected": False}
    return words.get(str(told).strip().lower())
