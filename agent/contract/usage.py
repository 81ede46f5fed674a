"""Model usage, and what a rung cost and produced. Values only."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens and money spent. `cost` is the known part, in US dollars; None if no call's price is known."""

    tokens_in: int = 0
    tokens_out: int = 0
    calls: int = 0
    cost: float | None = 0.0
    unpriced: int = 0  # calls of unknown price, not in `cost`

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
    """What one rung cost and produced, for the log."""

    rung: str
    seconds: float
    tried: int  # candidates evaluated, including those only tried inside the rung
    passed: int  # candidates that passed inside the rung
    usage: Usage
    note: str = ""
