"""What an attempt may spend, and may still spend: the one place where budgets are checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from agent.contract.usage import Usage

A_CALL = 4_000  # tokens that a call of a model takes about, before one was made


@dataclass(frozen=True, slots=True)
class Budget:
    """What an attempt may spend, in all."""

    iterations: int = 8
    tokens: int = 200_000
    cost: float = 2.0  # US dollars
    seconds: float = 1800.0
    reserve: float = 60.0  # seconds kept back to publish what is found


@dataclass(frozen=True, slots=True)
class Ledger:
    """A budget beside what was spent. Seconds are wall time; the running step counts as it runs."""

    budget: Budget
    iterations: int
    usage: Usage
    seconds: float  # spent by the steps before this one, also by those that other workers ran
    began: float  # when this step began, on `monotonic`
    monotonic: Callable[[], float]

    def seconds_spent(self) -> float:
        return self.seconds + self.monotonic() - self.began

    def seconds_left(self) -> float:
        """What may still be worked, with the reserve to publish kept back (a short budget keeps back a tenth)."""
        reserve = min(self.budget.reserve, self.budget.seconds / 10)
        return max(0.0, self.budget.seconds - reserve - self.seconds_spent())

    def calls_left(self) -> int:
        """How many more calls of a model, each like those before, tokens and money can pay."""
        tokens, calls = self.usage.tokens_in + self.usage.tokens_out, self.usage.calls
        left = (self.budget.tokens - tokens) / (tokens / calls if tokens and calls else A_CALL)
        if self.usage.cost and self.budget.cost > 0:
            left = min(left, (self.budget.cost - self.usage.cost) / (self.usage.cost / max(1, calls - self.usage.unpriced)))
        return max(0, int(left))

    def spent_up(self) -> str | None:
        """Which bound is reached, as a clause for people, or None while another iteration can be afforded."""
        if self.iterations >= self.budget.iterations:
            return f"the {self.budget.iterations} iterations of its budget are used up"
        if self.seconds_left() <= 0:
            return f"the {self.budget.seconds:.0f} s of its budget are used up"
        return None

    def model_spent_up(self) -> str | None:
        """The same for what only models spend: tokens, and money as far as prices are known."""
        tokens = self.usage.tokens_in + self.usage.tokens_out
        if tokens >= self.budget.tokens:
            return f"the {self.budget.tokens} model tokens of its budget are used up"
        if (self.usage.cost or 0.0) >= self.budget.cost > 0:
            return f"the ${self.budget.cost:.2f} of its budget are used up"
        return None
