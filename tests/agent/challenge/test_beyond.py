"""Questions about what a change does near the tests' calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from agent.challenge.exercise import CallResult, NearCall, Observations, ObservedCall, Variant
from agent.challenge.judgement import judge


def value(number: float) -> CallResult:
    return CallResult("value", f'{{"number": "{number}"}}', None, False)


REFUSED = CallResult("raised", "ValueError", None, False, refuses=True)
FAILED = CallResult("raised", "KeyError", None, False)
Row = tuple[ObservedCall | NearCall, CallResult, CallResult]


def own(at: int, before: CallResult, after: CallResult, *, passing: bool = False) -> Row:
    return ObservedCall(0, f"({at})", passing, mild=False), before, after


def near(
    how: Literal["beside", "beyond", "holds"], of: int, before: CallResult, after: CallResult, count: int = 1
) -> list[Row]:
    return [(NearCall(0, f"(near {of})", how, of), before, after)] * count


def asked(rows: Sequence[Row], *, has_data: bool = True) -> tuple[str, ...]:
    called = [row for row in rows if isinstance(row[0], ObservedCall)]
    beside = [row for row in rows if row not in called]
    base, winner = (Variant([], [row[at] for row in called], [row[at] for row in beside]) for at in (1, 2))  # type: ignore[misc]
    calls, others = [row[0] for row in called], [row[0] for row in beside]
    return judge(Observations(["f"], calls, [base, winner], near=others), has_data=has_data).questions  # type: ignore[arg-type]


def test_a_change_that_has_no_effect_near_the_failing_calls_is_asked_about() -> None:
    rows = [own(0, value(1), value(2)), *near("beside", 0, value(3), value(3), 20)]
    assert asked(rows) == ("the change affects `f(0)`, which a test calls, but hardly any call near it",)
    assert not asked(rows, has_data=False), "a boundary may be repaired without any new value"
    assert not asked([*rows, *near("beside", 0, value(3), value(4), 8)]), "it has an effect there"


def test_only_what_is_beside_a_failing_call_counts() -> None:
    rows = [own(0, value(1), value(2)), own(1, value(5), value(5), passing=True)]
    assert not asked([*rows, *near("beside", 1, value(3), value(3), 20)]), "a change has no effect beside what passed before"


def test_calls_that_both_refuse_tell_nothing() -> None:
    assert not asked([own(0, value(1), value(2)), *near("beside", 0, FAILED, FAILED, 20)])


def test_a_change_whose_effect_ends_with_the_tested_numbers_is_asked_about() -> None:
    rows = [own(0, value(1), value(2)), own(1, value(1), value(2)), *near("beside", 0, value(1), value(2), 9)]
    assert len(asked([*rows, *near("beyond", 1, value(3), value(3), 60)])) == 1
    assert not asked([*rows, *near("beyond", 1, value(3), value(3), 60), *near("beyond", 1, value(1), value(2))])


def test_what_is_no_longer_refused_is_asked_about_unless_a_failing_test_wants_less_refused() -> None:
    wrong = own(0, value(1), value(2))
    rows = [wrong, own(1, REFUSED, REFUSED, passing=True), *near("beside", 1, REFUSED, value(1))]
    assert asked(rows) == ("`f(near 1)` is no longer refused, and no test asks for that",)
    assert not asked([own(0, REFUSED, value(2)), *rows[1:]])
    assert not asked([wrong, rows[1], *near("beside", 1, FAILED, value(1))]), "it was a mistake, no refusal"
    held = [own(0, REFUSED, value(2)), rows[1], *near("holds", 1, REFUSED, value(1))]
    assert len(asked(held)) == 1, "a longer value that holds what is refused"


def test_a_function_that_is_to_refuse_less_and_refuses_hardly_anything_any_more_is_asked_about() -> None:
    rows = [own(0, REFUSED, value(2)), own(1, REFUSED, REFUSED, passing=True), own(2, value(3), value(3), passing=True)]
    wide = near("beside", 1, REFUSED, value(1), 4)
    assert asked([*rows, *wide]) == ("`f(near 1)` is no longer refused, like many calls near those that still are",)
    assert not asked([*rows, *near("beside", 0, REFUSED, value(1), 9)]), "near the call that shall be answered"
    assert not asked([*rows, *wide, *near("beside", 1, REFUSED, REFUSED, 9)]), "most of them still are"
    assert not asked([*rows[:2], *wide]), "it answered no call of the tests before"
