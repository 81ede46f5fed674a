import pytest

from weights import grams, heavier, kilos


def test_grams():
    assert grams(1.25) == 1250


@pytest.mark.parametrize("weight", [0, 500])
def test_there_and_back(weight):
    # Red only where warnings are errors, as the workflow has it.
    assert grams(kilos(weight)) == weight


def test_heavier():
    assert heavier(3, 4) == 4
