"""The words that people read: numbers, durations and names agree with each other."""

import pytest

from agent.contract import words
from agent.contract.budget import RungCost, Usage
from agent.contract.outcome import Outcome
from agent.contract.proposal import Span
from agent.contract.verdicts import EXIT
from agent.graph import STEPS
from agent.report.endings import gave_up


def test_numbers_agree_with_their_nouns() -> None:
    assert [words.counted(n, "test") for n in (0, 1, 2, 1200)] == ["0 tests", "1 test", "2 tests", "1,200 tests"]
    assert [words.in_runs(n) for n in (1, 2, 3)] == ["in 1 run", "in both runs", "in all 3 runs"]


def test_the_exit_code_of_a_command_is_not_shown_as_a_test() -> None:
    assert words.named(["test_a.py::test_b", EXIT]) == "`test_a.py::test_b`, the whole command"
    assert [words.verdict(id_) for id_ in ("exit", "test_exit.py::test_exit")] == [
        "the whole command",
        "test_exit.py::test_exit",
    ]


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0.04, "0.0 s"), (1.26, "1.3 s"), (9.96, "10 s"), (119, "119 s"), (301, "5 min")]
)
def test_durations_are_rounded_as_people_do(seconds: float, shown: str) -> None:
    assert words.took(seconds) == shown


def test_every_step_is_told_in_words_and_not_by_its_name() -> None:
    takes_no_time = {
        "recall",
        "climb",
        "select",
        "approve",
        "approve_round",
        "guard",
        "report",
    }  # what they do has events of its own
    for name in STEPS.keys() - takes_no_time:
        for rung in ("", "patterns", "tools", "model:x"):
            told = words.step(name, rung)
            assert " " in told
            assert told[0].isupper()
            assert "\n" not in told
    assert words.step("propose", "model:x") == "Asking the model `x` for a patch"


def test_giving_up_says_what_each_rung_did_and_where_to_start() -> None:
    rungs = [
        RungCost("patterns", 19.3, 402, 0, Usage()),
        RungCost("model:x", 3.0, 1, 0, Usage(10, 1, 1)),
        RungCost("model:x", 4.0, 1, 0, Usage(10, 1, 1)),
    ]
    suspects = (Span("src/a.py", 3, 9, 0.9, "in the traceback", "parse"),)
    ending = gave_up(2, rungs, suspects)
    assert ending.outcome is Outcome.GAVE_UP
    assert ending.reason == (
        "Mutation search tried 402 changes in 19 s; none makes the failing tests pass; the model `x` "
        "proposed 2 changes in 7.0 s. 2 changes were fully checked; none was accepted."
    )
    assert ending.next_step == "It fails in `parse` (src/a.py:3-9). Start there."


def test_giving_up_without_a_model_and_without_a_place_still_has_a_next_step() -> None:
    ending = gave_up(0, [RungCost("patterns", 0.0, 0, 0, Usage(), "no Python file is suspicious")], ())
    assert ending.reason == "Mutation search skipped: no Python file is suspicious."
    assert ending.next_step == "Start at the failure."
    assert "No source of patches" in gave_up(0, [], ()).reason
