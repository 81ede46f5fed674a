from core import total


def test_total():
    assert total([100, 50]) == 150
