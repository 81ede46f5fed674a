"""What the guest learns of tests on the unchanged code."""

import time
from pathlib import Path

from agent.guest.trial.forks import LOOPING, Measurements


def burn() -> bool:
    until = time.process_time() + 20
    while time.process_time() < until:
        pass
    return True


def test_a_test_that_being_looked_at_makes_too_slow_costs_what_it_took_before(tmp_path: Path) -> None:
    known = Measurements(str(tmp_path), {"known": burn, "new": burn}, {"known": 0.02})
    assert known.measure(["known", "new"], 20) == {"known": None, "new": None}
    assert (known.costs, known.walls) == ({"known": 0.02, "new": LOOPING},) * 2
