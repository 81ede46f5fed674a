"""What makes a repair surer, and what less. The tests use the estimates, as the fitted coefficients change with their data."""

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from agent.challenge.judgement import Challenged
from agent.contract.outcome import VERY_SURE
from agent.contract.proposal import Candidate, FileChange
from agent.contract.task import Policy
from agent.gate.confidence import ASKED, SURE, coefficients, confidence_of, estimate, signals
from agent.gate.fitting import ESTIMATES

SMALL = Candidate("patterns", (FileChange("a.py", "x = 1\n", "x = 2\n"),), "small")
LONG = "".join(f"x{n} = 1\n" for n in range(60))
NOTHING = Challenged()


def value(
    candidate: Candidate = SMALL,
    alternatives: int = 0,
    degraded: Sequence[str] = (),
    challenged: Challenged = NOTHING,
    *,
    earned: bool = True,
) -> float:
    known = msgspec.structs.replace(ESTIMATES[candidate.rung.partition(":")[0]], very_sure=earned)
    return confidence_of(known, signals(candidate, alternatives, degraded, challenged, 1))


def test_each_sign_against_a_repair_makes_it_less_sure() -> None:
    best = value(challenged=Challenged(kept=2))
    worse = {
        "nothing kept": value(),
        "others pass": value(alternatives=2, challenged=Challenged(kept=2)),
        "degraded": value(degraded=("localize",), challenged=Challenged(kept=2)),
        "a doubt": value(challenged=Challenged(doubts=("it is odd",), kept=2)),
        "neighbours differ": value(challenged=Challenged(kept=2, neighbours=5, passing=3, undecided=3)),
        "rivals differ": value(challenged=Challenged(kept=2, unlike=3)),
        "unlikely": value(Candidate("patterns", SMALL.edits, "unlikely", prior=0.1), challenged=Challenged(kept=2)),
        "long": value(
            Candidate("patterns", (FileChange("a.py", LONG, LONG.replace("1", "2")),), "long"), challenged=Challenged(kept=2)
        ),
    }
    assert {name: each for name, each in worse.items() if not 0 < each < best < 1} == {}


def test_a_pinned_change_is_surer() -> None:
    assert value(challenged=Challenged(neighbours=5, doubts=("odd",))) > value(challenged=Challenged(doubts=("odd",)))


def test_a_change_of_other_lines_than_the_last_change_touched_is_less_sure_and_says_so() -> None:
    clause = "it changes no line that changed since the parent commit"
    apart = estimate(SMALL, 0, (), NOTHING, elsewhere=clause)
    assert apart.value < estimate(SMALL, 0, (), NOTHING).value
    assert apart.doubts == (clause,)


def test_taking_back_a_change_is_told_and_counts_only_against_a_model() -> None:
    clause = "it takes back 2 of the 4 lines of code that changed"
    by_model = Candidate("model:m", SMALL.edits, "by a model")
    for candidate, counts in ((SMALL, False), (by_model, True)):
        back = estimate(candidate, 0, (), NOTHING, reversal=clause)
        assert back.doubts == (clause,)
        assert (back.value < estimate(candidate, 0, (), NOTHING).value) is counts


def test_more_alternatives_never_make_it_surer() -> None:
    values = [value(alternatives=count) for count in (0, 1, 2, 5, 20, 1000, -1)]
    assert values[:-1] == sorted(values[:-1], reverse=True)
    assert values[-1] == values[0]


def test_where_the_tests_leave_a_choice_nothing_is_very_sure() -> None:
    sure = Candidate("patterns", SMALL.edits, "small", prior=0.95)
    assert value(sure, 0, (), Challenged(kept=2)) >= VERY_SURE
    assert value(sure, 3, (), Challenged(kept=2)) < VERY_SURE


def test_a_rung_that_has_not_earned_it_is_never_very_sure() -> None:
    sure = Candidate("patterns", SMALL.edits, "small", prior=1.0)
    assert value(sure, 0, (), Challenged(kept=2, neighbours=9), earned=False) < VERY_SURE


def test_a_rung_of_an_extension_has_coefficients_too() -> None:
    assert 0 < estimate(Candidate("codemod:mine", SMALL.edits, "by an extension"), 0, (), NOTHING).value < VERY_SURE


def test_two_doubts_of_the_challenge_are_not_sure() -> None:
    doubts = ("it raises", "others differ")
    assert value(alternatives=3, challenged=Challenged(doubts=doubts)) < SURE
    assert estimate(SMALL, 3, (), Challenged(doubts=doubts)).doubts == doubts


def test_what_the_tests_do_not_decide_is_told_as_a_doubt() -> None:
    loose = "the tests do not decide it: they also pass if `1` becomes `2`"
    assert estimate(SMALL, 0, (), Challenged(loose=loose, passing=1)).doubts == (loose,)


def test_a_step_that_fell_back_twice_counts_once() -> None:
    assert estimate(SMALL, 0, ("localize", "localize"), NOTHING) == estimate(SMALL, 0, ("localize",), NOTHING)


def test_it_stays_a_probability_however_bad_it_is() -> None:
    huge = Candidate("model:m", (FileChange("a.py", LONG * 50, "y = 1\n"),), "huge")
    assert 0 < value(huge, 10**6, [str(n) for n in range(50)], Challenged(doubts=("a", "b", "c"))) < 0.05


def test_a_clean_repair_of_each_rung_is_published_by_default() -> None:
    for kind in ("tools", "history", "patterns", "model"):
        found = estimate(Candidate(kind, SMALL.edits, "small"), 0, (), NOTHING)
        assert found.value >= Policy().least(kind, clear=False), (kind, coefficients()[kind])


def test_what_is_asked_about_is_not_published_by_default_unless_it_is_a_clear_change_of_the_search() -> None:
    question = "it empties old in a.py"
    for kind in ("history", "patterns", "model"):
        found = estimate(Candidate(kind, SMALL.edits, "small"), 0, (), NOTHING, asked=(question,))
        assert found.value < Policy().least(kind, clear=False)
        assert (found.value >= Policy().least(kind, clear=True)) is (kind == "patterns")
        assert found.doubts[0] == question


def test_what_fails_behind_its_tests_is_never_published_by_default() -> None:
    found = estimate(SMALL, 0, (), NOTHING, unfinished=("what `tests` does after its tests fails",))
    assert found.value < Policy().least("patterns", clear=True)


def test_a_small_change_with_a_variant_that_behaves_differently_has_a_question() -> None:
    loose = "the tests do not decide it: they also pass if `1` becomes `2`, which makes a difference for `f(3)`"
    challenged = Challenged(loose=loose, kept=1, neighbours=5, passing=1, undecided=1)
    assert estimate(SMALL, 0, (), challenged).doubts == (loose,)
    assert estimate(SMALL, 0, (), challenged).value == ASKED
    assert estimate(replace(SMALL, rung="model:m"), 0, (), challenged).value > ASKED
