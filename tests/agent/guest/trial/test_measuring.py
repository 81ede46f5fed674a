"""What the guest learns of tests on the unchanged code."""

import time
from pathlib import Path

from agent.guest.trial.forks import LOOPING, Measurements
from agent.guest.trial.server import SearchServer


def burn() -> bool:
    until = time.process_time() + 20
    while time.process_time() < until:
        pass
    return True


def test_a_test_that_being_looked_at_makes_too_slow_costs_what_it_took_before(tmp_path: Path) -> None:
    known = Measurements(str(tmp_path), {"known": burn, "new": burn}, {"known": 0.02})
    assert known.measure(["known", "new"], 20) == {"known": None, "new": None}
    assert (known.costs, known.walls) == ({"known": 0.02, "new": LOOPING},) * 2


def wait() -> bool:
    time.sleep(0.3)
    return False


def compute() -> bool:
    return sum(range(1_000_000)) < 0


def test_the_test_that_ends_first_is_tried_first_even_if_another_only_waits(tmp_path: Path) -> None:
    plan = {"until": time.monotonic() + 20, "durations": {}, "red": ["waits", "computes"], "green": []}
    server = SearchServer(plan, str(tmp_path), {"waits": wait, "computes": compute}, [], lambda _: None, -1)
    assert server.prepare()
    assert server.red == ["computes", "waits"]
