from api import post


def test_with_a_discount():
    assert post({"prices": [100], "discount": 10}) == {"total": 90}


def test_without_a_discount():
    assert post({"prices": [100]}) == {"total": 100}
