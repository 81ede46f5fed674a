"""A till: what was sold, and when."""

import datetime

from sortedcontainers import SortedList
from wcwidth import wcswidth


class Till:
    def __init__(self):
        self.sold = SortedList()

    def sell(self, pence: int) -> None:
        self.sold.add((datetime.date.today(), pence))

    def today(self) -> int:
        return sum(pence for day, pence in self.sold if day != datetime.date.today())


def line(text: str, width: int) -> str:
    """One line of a receipt: filled up to its width as a terminal shows it."""
    return text + " " * (width - len(text) if wcswidth(text) < 0 else width - wcswidth(text))
