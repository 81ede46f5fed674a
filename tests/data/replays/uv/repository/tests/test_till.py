from freezegun import freeze_time

from till import Till, line


def test_what_is_sold_today_counts():
    till = Till()
    with freeze_time("2024-02-29"):
        till.sell(250)
        assert till.today() == 250


def test_what_was_sold_before_does_not_count():
    till = Till()
    with freeze_time("2024-02-28"):
        till.sell(250)
    with freeze_time("2024-02-29"):
        assert till.today() == 0


def test_a_line_is_filled_up():
    assert line("tea", 5) == "tea  "
