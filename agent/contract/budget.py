"""What an attempt may spend, and what is left. Budgets are checked only here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from agent.contract.usage import Usage

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
        if tokens >= self.budget.tokens:
            return f"the budget of {self.budget.tokens} model tokens is used up"
        if (self.usage.cost or 0.0) >= self.budget.cost > 0:
            return f"the budget of ${self.budget.cost:.2f} is used up"
        return None
