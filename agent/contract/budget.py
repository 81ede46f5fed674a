"""What an attempt may spend, what it has spent, and what is left. Budgets are checked only here."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

A_CALL = 4_000  # tokens assumed for a model call until the first one has been made


@dataclass(frozen=True, slots=True)
class Budget:
    """What an attempt may spend in total."""

    iterations: int = 8
    tokens: int = 200_000
    cost: float = 2.0  # US dollars
    seconds: float = 1800.0
    reserve: float = 60.0  # seconds kept back to publish a repair


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
    is_outage: bool = False  # the model could not be asked; `note` says why


@dataclass(frozen=True, slots=True)
class Ledger:
    """A budget and what was spent of it. Seconds are wall time and include the running step."""

    budget: Budget
    iterations: int
    usage: Usage
    seconds: float  # spent by earlier steps, including those on other workers
    began: float  # start of this step, on `monotonic`
    monotonic: Callable[[], float]

    def seconds_spent(self) -> float:
        return self.seconds + self.monotonic() - self.began

    def seconds_left(self) -> float:
        """Seconds left, minus the reserve for publishing (a tenth of a short budget)."""
        reserve = min(self.budget.reserve, self.budget.seconds / 10)
        return max(0.0, self.budget.seconds - reserve - self.seconds_spent())

    def calls_left(self) -> int:
        """How many more model calls the tokens and money allow, at the average cost so far."""
        tokens, calls = self.usage.tokens_in + self.usage.tokens_out, self.usage.calls
        left = (self.budget.tokens - tokens) / (tokens / calls if tokens and calls else A_CALL)
        if self.usage.cost and self.budget.cost > 0:
            left = min(left, (self.budget.cost - self.usage.cost) / (self.usage.cost / max(1, calls - self.usage.unpriced)))
        return max(0, int(left))

    def spent_up(self) -> str | None:
        """Which bound is reached, as a clause for people; None if another iteration fits."""
        if self.iterations >= self.budget.iterations:
            return f"the budget of {self.budget.iterations} iterations is used up"
        if self.seconds_left() <= 0:
            return f"the budget of {self.budget.seconds:.0f} s is used up"
        return None

    def model_spent_up(self) -> str | None:
        """The same for model calls: tokens, and money if prices are known."""
        tokens = self.usage.tokens_in + self.usage.tokens_out
        if self.budget.tokens == 0:
            return "the budget allows no model tokens"
        if tokens >= self.budget.tokens:
            return f"the budget of {self.budget.tokens} model tokens is used up"
        if (self.usage.cost or 0.0) >= self.budget.cost > 0:
            return f"the budget of ${self.budget.cost:.2f} is used up"
        return None


@dataclass
class Meter:
    """One budget for several runs of the graph and the model calls between them. It keeps no reserve.

    `agent.models.router.Models.metered` asks it before each call, so a budget is exceeded by one call at most. What calls that
    run in parallel may still use counts as used.
    """

    budget: Budget
    usage: Usage = Usage()
    began: float = field(default_factory=time.monotonic)
    running: int = 0  # calls
    expected: int = 0  # tokens of the running calls, at most

    @property
    def seconds(self) -> float:
        """Wall time so far."""
        return time.monotonic() - self.began

    def ledger(self, iterations: int = 0) -> Ledger:
        running = Usage(self.expected, 0, self.running, self.running * (self.usage.cost or 0.0) / max(1, self.usage.calls))
        return Ledger(self.budget, iterations, self.usage + running, 0.0, self.began, time.monotonic)

    def left(self) -> Budget:
        """What is left of everything but the iterations."""
        tokens = self.usage.tokens_in + self.usage.tokens_out
        least = 1e-9  # of a limit that is reached, as 0 is none
        cost = max(least, self.budget.cost - (self.usage.cost or 0.0)) if self.budget.cost > 0 else 0.0
        return Budget(
            self.budget.iterations,
            max(0, self.budget.tokens - tokens),
            cost,
            max(0.0, self.budget.seconds - self.seconds),
            reserve=0.0,
        )

    def call_starts(self, tokens: int) -> str | None:
        """Counts a call with at most so many tokens as running; or why it must not start, as a clause."""
        if self.ledger().seconds_left() <= 0:
            return f"the budget of {self.budget.seconds:.0f} s is used up"
        if (bound := self.ledger().model_spent_up()) is not None:
            return bound
        self.running, self.expected = self.running + 1, self.expected + tokens
        return None

    def call_ended(self, tokens: int, usage: Usage) -> None:
        self.running, self.expected = self.running - 1, self.expected - tokens
        self.usage += usage
