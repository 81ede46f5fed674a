"""When a parcel arrives: working days only."""

from datetime import timedelta

TRANSIT_DAYS = {"domestic": 2, "europe": 4, "world": 8}


def is_working_day(day, holidays=()):
    """Monday to Friday, unless it is a holiday."""
    return day.weekday() < 5 and day not in holidays


def add_working_days(day, count, holidays=()):
    """Return the day that lies `count` working days after `day`."""
    while count > 0:
        day += timedelta(days=1)
        if is_working_day(day, holidays):
            count -= 1
    return day


def arrival(sent, zone, *, express=False, holidays=()):
    """Return the day on which a parcel sent on `sent` arrives; express takes half the days, rounded up."""
    days = TRANSIT_DAYS[zone]
    if express:
        days = (days + 1) // 2
    return add_working_days(sent, days, holidays)
