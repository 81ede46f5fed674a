"""What was spent is added up, as far as it is known."""

from __future__ import annotations

import pytest

from agent.contract.budget import Usage
from agent.state import pack, unpack

UNKNOWN = Usage(10, 5, 1, None)
KNOWN = Usage(100, 50, 2, 1.5)


@pytest.mark.parametrize("usages", [(KNOWN, UNKNOWN), (UNKNOWN, KNOWN), (Usage(), KNOWN, Usage(), UNKNOWN)])
def test_a_call_of_unknown_price_keeps_the_known_part(usages: tuple[Usage, ...]) -> None:
    total = sum(usages, Usage())
    assert total == Usage(110, 55, 3, 1.5, unpriced=1)
    assert unpack(Usage, pack(total)) == total


def test_without_any_known_price_there_is_no_cost() -> None:
    assert sum((UNKNOWN, UNKNOWN), Usage()) == Usage(20, 10, 2, None, unpriced=2)
    assert sum((Usage(), Usage()), Usage()) == Usage(cost=0.0)
    assert unpack(Usage, {"calls": 3, "cost": None}).unpriced == 3
