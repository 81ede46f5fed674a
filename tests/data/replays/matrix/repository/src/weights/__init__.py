"""Weights of parcels, in grams."""

import warnings


def grams(kilos: float) -> int:
    return round(kilos * 1000)


def kilos(weight: int) -> float:
    warnings.warn("kilos() is deprecated, divide by 1000", DeprecationWarning, stacklevel=2)
    return weight / 1000


def heavier(one: int, other: int) -> int:
    return max(one, other)
