import pytest

from parcel.rates import TooHeavy, bracket_for, price, zone_of


def test_a_light_letter_at_home():
    assert price(200, "DE") == 390


@pytest.mark.parametrize(("grams", "cents"), [(501, 550), (1999, 550), (2001, 790), (9000, 1090)])
def test_each_bracket_has_its_price(grams, cents):
    assert price(grams, "DE") == cents


@pytest.mark.parametrize(("grams", "cents"), [(500, 390), (2000, 550), (31500, 1690)])
def test_a_bracket_includes_its_upper_limit(grams, cents):
    assert price(grams, "DE") == cents


def test_too_heavy_is_refused():
    with pytest.raises(TooHeavy, match="31501 g"):
        bracket_for(31501)


def test_nothing_is_refused():
    with pytest.raises(ValueError, match="weighs something"):
        bracket_for(0)


def test_unknown_countries_are_far_away():
    assert zone_of("xx") == "world"
    assert zone_of("fr") == "europe"


def test_insurance_is_one_percent_but_at_least_a_euro():
    assert price(200, "DE", insured=50_000) == 890
    assert price(200, "DE", insured=100) == 490
