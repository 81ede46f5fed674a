import pytest

import labels


def test_a_shelf_has_its_label():
    assert labels.shelf()("a").label == "a"


def test_an_empty_label_is_refused():
    with pytest.raises(ValueError, match="label"):
        labels.shelf()("")


def test_upper():
    assert labels.upper("a") == "A"
