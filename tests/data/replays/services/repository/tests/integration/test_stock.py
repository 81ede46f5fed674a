def test_nothing(stock):
    assert stock.count("tea") == 0


def test_what_is_put_is_counted(stock):
    stock.put("tea", 3)
    stock.put("tea", 4)
    assert stock.count("tea") == 7


def test_what_is_put_later_is_counted_too(stock):
    stock.put("tea", 3)
    assert stock.count("tea") == 3
    stock.put("tea", 4)
    assert stock.count("tea") == 7


def test_after_the_failure(stock):
    # The step ends before it in CI; here everything is run.
    stock.put("milk", 1)
    assert stock.count("milk") == 1
