"""Weights as people write them, in grams inside."""

import re

_GRAMS = {"g": 1, "kg": 1000, "t": 1_000_000, "oz": 28.349523125, "lb": 453.59237}
_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)\s*(kg|g|t|oz|lb)\b", re.IGNORECASE)

# Cubic centimetres that are charged like one kilogram.
VOLUMETRIC_DIVISOR = 5000


def parse_weight(text):
    """Return the grams of "2.5 kg", "1 kg 500 g" or "8oz".

    Quantities add up. Raises ValueError when there is none, or when anything else is in the text.
    """
    rest = _QUANTITY.sub("", text).strip(" ,+")
    found = _QUANTITY.findall(text)
    if rest or not found:
        raise ValueError(f"not a weight: {text!r}")
    return sum(float(number) * _GRAMS[unit.lower()] for number, unit in found)


def volumetric_weight(length, width, height):
    """Return the grams that a box of these centimetres is charged for."""
    if min(length, width, height) <= 0:
        raise ValueError("a box needs three positive sides")
    return length * width * height / VOLUMETRIC_DIVISOR * 1000


def billable_weight(grams, box=None):
    """Return the larger of the real and the volumetric weight, in grams."""
    if box is None:
        return grams
    return max(grams, volumetric_weight(*box))
