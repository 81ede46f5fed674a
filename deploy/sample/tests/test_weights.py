import pytest

from parcel.weights import billable_weight, parse_weight, volumetric_weight


@pytest.mark.parametrize(
    ("text", "grams"),
    [("500 g", 500), ("2.5 kg", 2500), ("2.5KG", 2500), ("1 kg 500 g", 1500), ("1 kg, 20 g", 1020)],
)
def test_weights_are_read_as_people_write_them(text, grams):
    assert parse_weight(text) == grams


def test_imperial_weights():
    assert parse_weight("1 lb 8 oz") == pytest.approx(680.388555)


@pytest.mark.parametrize("text", ["", "heavy", "3", "3 kg and a bit"])
def test_what_is_no_weight_is_refused(text):
    with pytest.raises(ValueError, match="not a weight"):
        parse_weight(text)


def test_a_box_is_charged_by_its_volume():
    assert volumetric_weight(50, 40, 30) == 12000


def test_a_box_needs_three_sides():
    with pytest.raises(ValueError, match="three positive sides"):
        volumetric_weight(50, 0, 30)


def test_the_larger_weight_counts():
    assert billable_weight(800, (50, 40, 30)) == 12000
    assert billable_weight(15000, (50, 40, 30)) == 15000


def test_without_a_box_the_scale_decides():
    assert billable_weight(800) == 800
