"""When orders are due."""

from datetime import date

from dateutil.relativedelta import relativedelta


def due(ordered: date, months: int = 1) -> date:
    """The same day of a later month, or its last one."""
    return ordered + relativedelta(day=months)


def overdue(ordered: date, today: date) -> bool:
    return today > due(ordered)
