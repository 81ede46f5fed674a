from datetime import date

from parcel.schedule import add_working_days, arrival, is_working_day

FRIDAY = date(2026, 5, 8)


def test_a_weekend_is_not_worked():
    assert is_working_day(FRIDAY)
    assert not is_working_day(date(2026, 5, 9))


def test_a_holiday_is_not_worked():
    assert not is_working_day(FRIDAY, holidays=[FRIDAY])


def test_no_days_stay_where_they_are():
    assert add_working_days(FRIDAY, 0) == FRIDAY


def test_a_weekend_is_skipped():
    assert add_working_days(FRIDAY, 1) == date(2026, 5, 11)


def test_domestic_takes_two_working_days():
    assert arrival(date(2026, 5, 4), "domestic") == date(2026, 5, 6)


def test_a_holiday_delays():
    assert arrival(FRIDAY, "domestic", holidays=[date(2026, 5, 11)]) == date(2026, 5, 13)


def test_express_takes_half_the_days():
    assert arrival(date(2026, 5, 4), "europe", express=True) == date(2026, 5, 6)
