"""Two runs, compared task by task."""

from __future__ import annotations

import pytest

from agent.bench.comparing import by_chance, compare
from agent.bench.score import Entry


def entry(id_: str, right: bool | None, *, error: str | None = None) -> Entry:
    return Entry(
        id=id_,
        group="all",
        outcome="healed",
        plausible=right is not None,
        heldout_correct=right,
        tokens=10,
        seconds=2.0,
        error=error,
    )


def test_gains_and_losses_are_named_and_only_common_tasks_count() -> None:
    one = [entry("a", True), entry("b", None), entry("c", False), entry("d", True), entry("e", True), entry("x", True)]
    two = [
        entry("a", True),
        entry("b", True),
        entry("c", True),
        entry("d", None),
        entry("e", None, error="lost"),
        entry("y", True),
    ]
    found = compare(one, two)
    assert (found.tasks, found.first.count, found.second.count) == (4, 2, 3)
    assert (found.gained, found.lost) == (("b", "c"), ("d",))
    assert (found.only_first, found.only_second) == (2, 1)
    assert (found.tokens, found.seconds) == ((40, 40), (8.0, 8.0))


def test_several_runs_of_a_task_are_one_pair() -> None:
    one = [entry(f"a{at}", False) for at in ("", "@2", "@3")] + [entry("b", True), entry("b@2", True), entry("b@3", False)]
    two = [entry(f"a{at}", True) for at in ("", "@2", "@3")] + [entry("b", False), entry("b@2", True), entry("b@3", True)]
    found = compare(one, two)
    assert (found.tasks, found.first.of, found.first.count, found.second.count) == (2, 6, 2, 5)
    assert (found.gained, found.lost) == (("a",), ()), "b is right as often as before, in other runs"
    assert found.p == 1.0, "one task that differs may be chance, however often it ran"


@pytest.mark.parametrize(
    ("gained", "lost", "p"), [(0, 0, 1.0), (5, 0, 0.0625), (6, 0, 0.03125), (10, 2, 0.038574), (3, 3, 1.0)]
)
def test_the_paired_test_is_exact(gained: int, lost: int, p: float) -> None:
    assert by_chance(gained, lost) == pytest.approx(p, rel=1e-4)
    assert by_chance(lost, gained) == by_chance(gained, lost)
