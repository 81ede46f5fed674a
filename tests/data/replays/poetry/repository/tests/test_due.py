import unittest
from datetime import date

from orders import due, overdue


class Due(unittest.TestCase):
    def test_a_month_later(self):
        self.assertEqual(due(date(2024, 5, 20)), date(2024, 6, 20))

    def test_the_last_day_of_a_short_month(self):
        self.assertEqual(due(date(2024, 1, 31)), date(2024, 2, 29))

    def test_no_month(self):
        self.assertIsInstance(due(date(2024, 1, 1), 1), date)


def test_not_overdue_on_the_first_day():
    assert not overdue(date(2024, 5, 1), date(2024, 5, 1))
