"""What makes a repair surer, and what less."""

from agent.challenge.judgement import Challenged
from agent.contract.outcome import VERY_SURE
from agent.contract.proposal import Candidate, FileChange
from agent.gate.confidence import SURE, estimate

SMALL = Candidate("patterns", (FileChange("a.py", "x = 1\n", "x = 2\n"),), "small")
LONG = "".join(f"x{n} = 1\n" for n in range(60))
NOTHING = Challenged()


def test_each_sign_against_a_repair_makes_it_less_sure() -> None:
    best = estimate(SMALL, 0, (), Challenged(kept=2)).value
    worse = [
        estimate(SMALL, 0, (), NOTHING).value,
        estimate(SMALL, 5, (), Challenged(kept=2)).value,
        estimate(SMALL, 0, ("localize",), Challenged(kept=2)).value,
        estimate(SMALL, 0, (), Challenged(doubts=("it is odd",), kept=2)).value,
        estimate(Candidate("model:m", SMALL.edits, "by a model"), 0, (), Challenged(kept=2)).value,
        estimate(Candidate("patterns", SMALL.edits, "unlikely", prior=0.1), 0, (), Challenged(kept=2)).value,
        estimate(
            Candidate("patterns", (FileChange("a.py", LONG, LONG.replace("1", "2")),), "long"), 0, (), Challenged(kept=2)
        ).value,
    ]
    assert all(0 < value < best < 1 for value in worse), (best, worse)


def test_more_alternatives_never_make_it_surer() -> None:
    values = [estimate(SMALL, count, (), NOTHING).value for count in (0, 1, 2, 5, 20, 1000, -1)]
    assert values[:-1] == sorted(values[:-1], reverse=True)
    assert values[-1] == values[0]


def test_what_the_tests_do_not_decide_is_never_very_sure() -> None:
    sure = Candidate("patterns", SMALL.edits, "small", prior=0.95)
    assert estimate(sure, 2, (), Challenged(kept=2)).value >= VERY_SURE
    assert estimate(sure, 3, (), Challenged(kept=2)).value < VERY_SURE


def test_two_doubts_of_the_challenge_are_not_sure() -> None:
    found = estimate(SMALL, 3, (), Challenged(doubts=("it raises", "others differ")))
    assert found.value < SURE
    assert found.doubts == ("it raises", "others differ")


def test_a_step_that_fell_back_twice_counts_once() -> None:
    assert estimate(SMALL, 0, ("localize", "localize"), NOTHING) == estimate(SMALL, 0, ("localize",), NOTHING)


def test_it_stays_a_probability_however_bad_it_is() -> None:
    huge = Candidate("model:m", (FileChange("a.py", LONG * 50, "y = 1\n"),), "huge")
    assert 0 < estimate(huge, 10**6, [str(n) for n in range(50)], Challenged(doubts=("a", "b", "c"))).value < 0.05
