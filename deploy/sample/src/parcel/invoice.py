"""Invoices: lines, discounts and tax, in cents."""

from dataclasses import dataclass, field

TAX_PERCENT = 19

# Parcels in one invoice, and the percent that is taken off from there on.
DISCOUNTS = [(50, 15), (20, 10), (10, 5)]


@dataclass(frozen=True)
class Line:
    text: str
    cents: int
    count: int = 1

    @property
    def total(self):
        return self.cents * self.count


@dataclass
class Invoice:
    lines: list = field(default_factory=list)

    def add(self, line):
        if line.count < 1:
            raise ValueError("a line needs at least one parcel")
        self.lines.append(line)
        return self

    @property
    def parcels(self):
        return sum(line.count for line in self.lines)

    @property
    def discount_percent(self):
        for parcels, percent in DISCOUNTS:
            if self.parcels >= parcels:
                return percent
        return 0

    @property
    def net(self):
        gross = sum(line.total for line in self.lines)
        return gross - round(gross * self.discount_percent / 100)

    @property
    def tax(self):
        return round(self.net * TAX_PERCENT / 100)

    @property
    def total(self):
        return self.net + self.tax
