"""Prices by zone and weight, in cents."""

# Upper limit in grams (inclusive) and the price of each zone up to it.
BRACKETS = [
    (500, {"domestic": 390, "europe": 890, "world": 1490}),
    (2000, {"domestic": 550, "europe": 1390, "world": 2490}),
    (5000, {"domestic": 790, "europe": 1890, "world": 3990}),
    (10000, {"domestic": 1090, "europe": 2690, "world": 5990}),
    (31500, {"domestic": 1690, "europe": 4290, "world": 9990}),
]

ZONES = {"DE": "domestic", "FR": "europe", "IT": "europe", "PL": "europe", "US": "world", "JP": "world"}


class TooHeavy(ValueError):
    """No bracket takes this weight."""


def zone_of(country):
    """Return the zone of a two-letter country code; the unknown ones are far away."""
    return ZONES.get(country.upper(), "world")


def bracket_for(grams):
    """Return the prices of the first bracket that takes this weight."""
    if grams <= 0:
        raise ValueError("a parcel weighs something")
    for limit, prices in BRACKETS:
        if grams <= limit:
            return prices
    raise TooHeavy(f"{grams} g is more than {BRACKETS[-1][0]} g")


def price(grams, country, *, insured=0):
    """Return the cents to send a parcel, with one percent of the insured cents, at least 100, on top."""
    cents = bracket_for(grams)[zone_of(country)]
    if insured:
        cents += max(100, round(insured * 0.01))
    return cents
