"""What may be spent is bounded, as far as it is known what was."""

from __future__ import annotations

from agent.contract.budget import Budget, Ledger, Meter, Usage

UNKNOWN = Usage(10, 5, 1, None)
KNOWN = Usage(100, 50, 2, 1.5)


def ledger(usage: Usage, budget: Budget) -> Ledger:
    return Ledger(budget, 0, usage, 0.0, 0.0, lambda: 0.0)


def test_the_known_part_of_the_money_is_a_bound() -> None:
    budget = Budget(cost=1.5)
    assert ledger(KNOWN, budget).model_spent_up() == "the budget of $1.50 is used up"
    assert ledger(KNOWN, Budget(tokens=0)).model_spent_up() == "the budget allows no model tokens"
    assert ledger(KNOWN + UNKNOWN, budget).model_spent_up() == "the budget of $1.50 is used up"
    assert ledger(UNKNOWN, budget).model_spent_up() is None
    assert ledger(KNOWN, Budget(cost=1.6)).model_spent_up() is None


def test_how_many_more_calls_can_be_paid_is_told_by_those_before() -> None:
    assert ledger(Usage(), Budget(tokens=40_000)).calls_left() == 10, "none was made yet: a guess"
    assert ledger(KNOWN, Budget(tokens=1_000, cost=0.0)).calls_left() == 11, "75 tokens each"
    assert ledger(KNOWN, Budget(tokens=1_000_000, cost=3.0)).calls_left() == 2, "75 cents each"
    assert ledger(KNOWN, Budget(tokens=100)).calls_left() == 0


def test_calls_of_one_budget_start_until_it_is_reached_and_count_what_runs_beside_them() -> None:
    meter = Meter(Budget(tokens=1_000, cost=3.0))
    assert meter.call_starts(600) is None
    assert meter.call_starts(600) is None
    assert meter.call_starts(600) == "the budget of 1000 model tokens is used up", "the two that run may use it up"
    meter.call_ended(600, KNOWN)
    assert meter.call_starts(600) is None, "the first used less"
    meter.call_ended(600, KNOWN)
    assert meter.call_starts(600) == "the budget of $3.00 is used up"
    assert 0 < meter.left().cost < 0.01, "0 would be no limit"
    assert Meter(Budget(seconds=0.0)).call_starts(1) == "the budget of 0 s is used up"
