"""What counts against a change and what is only strange."""

from typing import Literal

import pytest

from agent.challenge.exercise import CallResult, ExampleResult, Observations, ObservedCall, Variant
from agent.challenge.judgement import Challenged, alike, judge, with_neighbours

KEPT, BROKEN = ExampleResult("f", "f(1)", "kept", "1"), ExampleResult("f", "f(2)", "broken", "3")
CALLS = [ObservedCall(0, f"({n})", passing=True, mild=n > 0) for n in range(10)]


def answers(*texts: str, kind: str = "value") -> list[CallResult]:
    return [CallResult(kind, text, None, False, shown=text) for text in texts]  # type: ignore[arg-type]


def played(base: Variant, winner: Variant, *rivals: Variant) -> Observations:
    return Observations(["f"], CALLS, [base, winner, *rivals])


def test_an_example_that_held_before_counts() -> None:
    found = judge(played(Variant([ExampleResult("f", "f(2)", "kept", "2")]), Variant([BROKEN])))
    assert found.objection == "the docstring of `f` has the example `f(2)`, which gives `3`"


def test_a_plain_value_that_never_held_counts() -> None:
    assert judge(played(Variant([BROKEN]), Variant([BROKEN]))).objection


def test_what_may_be_a_matter_of_writing_counts_only_beside_an_example_that_holds() -> None:
    unlike = ExampleResult("f", "f(2)", "unlike", "<object>")
    assert judge(played(Variant([KEPT, unlike]), Variant([KEPT, unlike]))).objection
    found = judge(played(Variant([unlike]), Variant([unlike])))
    assert not found.objection
    assert "`f(2)`" in found.doubts[0]


def test_what_held_before_counts_however_it_is_written() -> None:
    unlike = ExampleResult("f", "f(2)", "unlike", "ValueError")
    assert judge(played(Variant([ExampleResult("f", "f(2)", "kept", "2")]), Variant([unlike]))).objection


def test_an_example_that_the_change_takes_away_is_a_doubt_and_counts_where_it_held_before() -> None:
    gone = ExampleResult("f", "f(2)", "broken", "3", withdrawn=True)
    found = judge(played(Variant([BROKEN]), Variant([gone])))
    assert (found.objection, found.doubts) == ("", ("it removes or rewrites the example `f(2)` in the docstring of `f`",))
    assert judge(played(Variant([ExampleResult("f", "f(2)", "kept", "2")]), Variant([gone]))).objection
    overruled = ExampleResult("f", "f(2)", "overruled", "3", withdrawn=True)
    assert judge(played(Variant([BROKEN]), Variant([overruled]))).doubts == (), "a test says so"


def test_what_is_impossible_says_nothing() -> None:
    assert judge(played(Variant([KEPT]), Variant([KEPT, ExampleResult("f", "g(1)", "impossible", "NameError")]))).doubts == ()


def test_examples_that_hold_are_counted() -> None:
    found = judge(played(Variant([BROKEN]), Variant([KEPT])))
    assert (found.objection, found.doubts, found.kept) == ("", (), 1)


def test_another_value_where_a_passing_test_calls_is_asked_about() -> None:
    found = judge(played(Variant([], answers("1")), Variant([], answers("2"))))
    assert "although a passing test" in found.asked[0]
    assert found.doubts == ()


@pytest.mark.parametrize(
    ("callers", "asked"),
    [(["pkg/parser.py"], False), (["pkg/parser.py", "tests/test_f.py"], True), (["pkg/parser.py", ""], True), ([], True)],
    ids=["its own code", "a test too", "something outside too", "unknown"],
)
def test_another_value_is_only_doubted_where_the_product_alone_calls(callers: list[str], asked: bool) -> None:
    calls = [ObservedCall(0, "(1)", passing=True, mild=False, callers=callers)]
    found = judge(Observations(["f"], calls, [Variant([], answers("1")), Variant([], answers("2"))]))
    assert (len(found.asked), len(found.doubts)) == (int(asked), int(not asked))
    assert "`f(1)` returns a different value than before" in "".join((*found.asked, *found.doubts))


def test_another_value_for_a_call_that_is_only_near_is_none() -> None:
    assert judge(played(Variant([], answers("1", "1")), Variant([], answers("1", "2")))).doubts == ()


def test_a_new_exception_a_changed_argument_and_a_broken_hint_are_doubts() -> None:
    base = Variant([], [CallResult("value", "1", True, False)] * 3)
    winner = Variant(
        [],
        [
            CallResult("value", "1", False, False),
            CallResult("raised", "KeyError", None, False),
            CallResult("value", "1", True, True),
        ],
    )
    doubts = judge(played(base, winner)).doubts
    assert ["type hint" in doubts[0], "raises `KeyError`" in doubts[1], "changes its arguments" in doubts[2]] == [True] * 3


def test_a_call_that_hangs_only_with_the_change_is_no_doubt() -> None:
    assert judge(played(Variant([], answers("1")), Variant([], answers("", kind="hung")))).doubts == ()


def test_what_was_so_before_is_no_doubt() -> None:
    odd = Variant([], [CallResult("value", "1", False, True), CallResult("raised", "KeyError", None, False)])
    assert judge(played(odd, odd)).doubts == ()


def test_rivals_that_agree_against_the_winner_are_a_doubt() -> None:
    mine, theirs = Variant([], answers(*"11111")), Variant([], answers(*"11122"))
    assert "`(3)`" in judge(played(mine, mine, theirs, theirs)).doubts[0]
    assert judge(played(mine, mine, mine, theirs)).doubts == ()
    assert judge(played(mine, mine, theirs)).doubts == ()


def test_a_variant_that_died_tells_nothing() -> None:
    assert judge(Observations(["f"], CALLS, [Variant([KEPT]), None])).doubts == ()
    assert not judge(Observations()).objection


def test_nonsense_from_inside_is_survived() -> None:
    strange = Observations(
        [], [ObservedCall(7, "(1)", passing=True, mild=False)], [Variant([], answers("1")), Variant([], answers("2", "3"))]
    )
    assert len(judge(strange).asked) == 1


def test_what_comes_from_inside_is_cleaned_before_people_see_it() -> None:
    nasty = ExampleResult("f", "f(2)\x1b[2J\u202e", "broken", "`3`" * 100)
    told = judge(played(Variant([KEPT]), Variant([KEPT, nasty]))).objection
    assert told.isprintable()
    assert len(told) < 400


def test_an_untouched_function_s_example_that_failed_before_is_only_a_doubt() -> None:
    stale = [
        ExampleResult("caller", "caller(1)", "kept", "1"),
        ExampleResult("caller", "caller(2)", "unlike", "AssertionError"),
    ]
    base = Variant([KEPT, *stale])
    found = judge(played(base, base))
    assert (found.objection, len(found.doubts)) == ("", 1)
    other = ExampleResult("caller", "caller(2)", "unlike", "KeyError")
    assert "`KeyError`" in judge(played(base, Variant([KEPT, stale[0], other]))).objection


def test_a_docstring_that_tests_contradict_is_only_a_doubt() -> None:
    overruled = ExampleResult("f", "f(1)", "overruled", "7")
    found = judge(played(Variant([KEPT, BROKEN]), Variant([overruled, BROKEN])))
    assert not found.objection
    assert "`f(1)`" in found.doubts[0]
    assert judge(played(Variant([KEPT, BROKEN]), Variant([overruled, ExampleResult("g", "g(1)", "broken", "0")]))).objection


def beside(*texts: str, titles: tuple[str, ...] = ("`1` becomes `2`", "`<` becomes `<=`"), tried: int = 7) -> Challenged:
    """A winner that answers 1, 2, 3, and neighbours that pass the same tests."""
    seen = played(Variant([]), Variant([], answers("1", "2", "3")), *(Variant([], answers(*text.split())) for text in texts))
    return with_neighbours(judge(seen, 0), seen, 2, tried, titles)


def test_a_neighbour_that_passes_and_behaves_otherwise_is_told_with_the_call() -> None:
    found = beside("1 2 3", "1 2 9")
    assert (found.neighbours, found.passing, found.undecided, found.compared) == (7, 2, 1, 3)
    said = "the tests do not decide it: they also pass if `<` becomes `<=`, "
    said += "with which `f(2)` gives `9`, while with this change it gives `3`"
    assert found.loose == said


@pytest.mark.parametrize(
    ("mine", "other"),
    [
        (answers("x" * 90 + "1"), answers("x" * 90 + "2")),
        ([CallResult("value", '{"object": "A"}', None, False)], [CallResult("value", '{"object": "B"}', None, False)]),
    ],
    ids=["the same where they are cut", "not plain"],
)
def test_results_that_cannot_be_told_apart_in_a_few_words_are_not_shown(
    mine: list[CallResult], other: list[CallResult]
) -> None:
    seen = played(Variant([]), Variant([], mine), Variant([], other))
    found = with_neighbours(judge(seen, 0), seen, 2, 7, ["`1` becomes `2`"])
    assert found.variants == ("`1` becomes `2`, which makes a difference for `f(0)`",)


def test_an_exception_is_a_result_too() -> None:
    seen = played(Variant([]), Variant([], answers("[True]")), Variant([], answers("KeyError", kind="raised")))
    (said,) = with_neighbours(judge(seen, 0), seen, 2, 7, ["`1` becomes `2`"]).variants
    assert said == "`1` becomes `2`, with which `f(0)` raises `KeyError`, while with this change it gives `[True]`"


def test_a_neighbour_that_behaves_the_same_is_no_doubt() -> None:
    found = beside("1 2 3", "1 2 3")
    assert (found.passing, found.undecided, found.loose) == (2, 0, "")


def test_where_no_call_was_seen_a_neighbour_that_passes_is_told_as_it_is() -> None:
    seen = played(Variant([]), Variant([]))
    found = with_neighbours(judge(seen), seen, 2, 7, ("`1` becomes `2`",))
    assert found.loose == "the tests do not decide it: they also pass if `1` becomes `2`"


def test_neighbours_are_no_rivals() -> None:
    seen = played(Variant([]), Variant([], answers("1")), Variant([], answers("2")), Variant([], answers("3")))
    assert judge(seen, 0).unlike == 0
    assert judge(seen, 1).unlike == 1
    assert judge(seen).unlike == 2


def test_a_change_that_can_only_be_called_in_a_test_run_is_asked_about() -> None:
    said = "its functions cannot be called outside of a test run, although they could before"
    cases: list[tuple[Literal["", "base", "change"], tuple[str, ...]]] = [("change", (said,)), ("base", ()), ("", ())]
    for silent, asked in cases:
        seen = Observations(["f"], CALLS, [Variant(), Variant()], silent=silent)
        assert judge(seen).asked == asked
        assert judge(seen, is_mutation=True).asked == ()


def test_a_rival_behaves_the_same_if_enough_calls_that_no_test_makes_show_it() -> None:
    same, other = Variant([], answers("1", "2", "3", "4")), Variant([], answers("1", "2", "3", "5"))
    assert alike(played(Variant([]), same, other, same, None), ("other", "same", "died")) == ("same",)  # type: ignore[arg-type]
    few = Variant([], answers("1", "2", "3"))
    assert alike(played(Variant([]), few, few), ("same",)) == ()
    assert alike(Observations([], [], []), ("same",)) == ()
