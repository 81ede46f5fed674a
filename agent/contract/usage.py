"""What asking models has used, and what a rung cost and brought, as values."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Usage:
    """What was spent. `cost` is what is known of it, in US dollars; None where the price of no call is known."""

    tokens_in: int = 0
    tokens_out: int = 0
    calls: int = 0
    cost: float | None = 0.0
    unpriced: int = 0  # calls whose price is not known: they come on top of `cost`

    def __post_init__(self) -> None:
        if self.cost is None and not self.unpriced:
            object.__setattr__(self, "unpriced", self.calls)

    def __add__(self, other: Usage) -> Usage:
        known = [usage.cost for usage in (self, other) if usage.cost is not None and usage.calls > usage.unpriced]
        unpriced = self.unpriced + other.unpriced
        return Usage(
            self.tokens_in + other.tokens_in,
            self.tokens_out + other.tokens_out,
            self.calls + other.calls,
            sum(known) if known or not unpriced else None,
            unpriced,
        )


@dataclass(frozen=True, slots=True)
class RungCost:
    """What one rung cost and brought, for the log."""

    rung: str
    seconds: float
    tried: int  # candidates that were evaluated, also those that never left the rung
    passed: int  # candidates that it handed on as plausible
    usage: Usage
    note: str = ""
