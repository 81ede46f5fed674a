"""Each ending has its outcome, counts what it reports, and has a next step."""

from __future__ import annotations

import pytest

from agent.contract.budget import RungCost, Usage
from agent.contract.outcome import Chance, Evidence, Flakiness, Outcome, ReflectionLog, Repair
from agent.contract.proposal import Diagnosis, Span
from agent.contract.verdicts import CheckRun, Failure, Verdict, VerdictId
from agent.report import endings
from agent.report.endings import Ending

IDS = tuple(VerdictId(f"tests/test_a.py::test_{name}") for name in "abcde")


def run(check: str = "tests", green: int = 0, **values: object) -> CheckRun:
    verdicts = dict.fromkeys(IDS[:green], Verdict.PASSED)
    settings = {"ending": "finished", "verdicts": verdicts, "failures": (), "seconds": 2.0, **values}
    return CheckRun(check, **settings)  # type: ignore[arg-type]


def service(output: str) -> CheckRun:
    return run(stopped_at="service postgres", output=output)


def test_a_timeout_names_the_command_and_the_test_that_ran() -> None:
    hung = Failure(VerdictId("test_a.py::test_b"), "did not finish in 600 s")
    stopped = run(ending="timeout", seconds=600.1, failures=(Failure(VerdictId("test_a.py::test_a"), "no"), hung))
    assert endings.stopped(stopped, "make test") == "`make test` was stopped after 10 min while `test_a.py::test_b` ran."
    silent = run(ending="timeout", seconds=78.0, output="one\nwaiting for a lock\n")
    assert endings.stopped(silent, "go test") == "`go test` was stopped after 78 s; it last printed `waiting for a lock`."
    ending = endings.inconclusive(silent, "go test")
    assert "It ran `go test`; the last line was: waiting for a lock" in ending.reason
    assert "`timeout:` of `test:` in `.github/selfheal.yml`" in ending.next_step
    once = endings.inconclusive(silent, "go test", IDS[:1])
    assert f"The failure of `{IDS[0]}` in another run could not be confirmed." in once.reason


ENDINGS = [
    (endings.not_reproduced((run(green=2),), 2, failed_in_ci=True), Outcome.NOT_REPRODUCED),
    (endings.nothing_failed((run(),)), Outcome.NOTHING_FAILED),
    (endings.flaky(Flakiness(IDS[:1], 1, 3, "order")), Outcome.FLAKY),
    (endings.needs_network(IDS[:1], "Connection refused", 2), Outcome.FLAKY),
    (endings.red_without_network(IDS[:1], "Connection refused"), Outcome.NOT_REPRODUCED),
    (endings.needs_the_network(IDS[:1], "Connection refused"), Outcome.NEEDS_SERVICES),
    (endings.limited(IDS[:1], "memory", "MemoryError"), Outcome.INFRASTRUCTURE),
    (endings.inconclusive(run(ending="timeout"), "make test"), Outcome.OUT_OF_BUDGET),
    (endings.inconclusive(run(ending="out_of_memory"), "make test"), Outcome.INFRASTRUCTURE),
    (endings.inconclusive(run(ending="crashed"), "make test"), Outcome.INFRASTRUCTURE),
    (endings.inconclusive(run(ending="crashed"), "make test", IDS[:1]), Outcome.INFRASTRUCTURE),
    (endings.could_not_start(run(exit_code=127)), Outcome.INFRASTRUCTURE),
    (endings.stopped_before(service("it exited\nstopped")), Outcome.NEEDS_SERVICES),
    (endings.stopped_before(run(stopped_at="Build", output="no compiler\nstopped")), Outcome.NOT_REPRODUCED),
    (endings.limit_reached("the disk is full"), Outcome.INFRASTRUCTURE),
    (endings.out_of_budget("the budget of 1 s is used up", 0), Outcome.OUT_OF_BUDGET),
    (endings.rejected("the change", "too large"), Outcome.CANCELLED),
    (endings.needs_test_change("The test is wrong."), Outcome.NEEDS_TEST_CHANGE),
    (endings.gave_up(0, (), ()), Outcome.GAVE_UP),
]


@pytest.mark.parametrize(("ending", "outcome"), ENDINGS)
def test_an_ending_has_its_outcome_a_reason_and_a_next_step(ending: Ending, outcome: Outcome) -> None:
    assert ending.outcome is outcome
    for sentence in (ending.reason, ending.next_step):
        assert sentence[:1] == sentence[:1].upper()
        assert sentence == sentence.strip() != ""
        assert "\n" not in sentence


def test_what_passed_is_counted_over_all_checks() -> None:
    bases = ((run(green=1),), (run(green=2), run("lint", green=3)))
    one, many = (endings.not_reproduced(base, 2, failed_in_ci=True).reason for base in bases)
    assert "1 result " in one
    assert "5 results " in many
    assert "`tests`, `lint`" in many


def test_runs_under_other_conditions_are_counted_if_there_were_any() -> None:
    reasons = [endings.not_reproduced((run(green=2),), 2, probed, failed_in_ci=False).reason for probed in (0, 1, 4)]
    assert "more run" not in reasons[0]
    assert "1 more run " in reasons[1]
    assert "4 more runs " in reasons[2]


def test_a_flaky_failure_is_reported_with_its_tests_its_rate_and_its_evidence() -> None:
    found = Flakiness(IDS, 2, 7, "order", ("it passes alone", "it fails after test_b"))
    ending = endings.flaky(found)
    assert ending.flakiness is found
    assert ending.reason.count("2 of 7 runs") == 1
    assert "Flaky" not in ending.reason, "the outcome says it"
    assert f"`{IDS[0]}`" in ending.reason
    assert "2 more" in ending.reason
    assert "it passes alone; it fails after test_b" in ending.reason
    assert "/heal flaky" in ending.next_step
    assert "--flaky" in ending.next_step


def test_every_cause_of_flakiness_has_advice_of_its_own() -> None:
    causes: tuple[Chance, ...] = ("order", "time", "randomness", "network", "concurrency", "unknown")
    assert len({endings.flaky(Flakiness(IDS[:1], 1, 2, cause)).next_step for cause in causes}) == len(causes)


def test_failures_that_mention_the_network_count_as_red_in_every_run() -> None:
    flakiness = endings.needs_network(IDS[:2], "Connection refused", 3).flakiness
    assert flakiness is not None
    assert (flakiness.ids, flakiness.red, flakiness.runs, flakiness.cause) == (IDS[:2], 3, 3, "network")
    assert "Connection refused" in flakiness.evidence[0]


def test_foreign_text_stays_inside_its_code_span() -> None:
    reason = endings.red_without_network(IDS[:1], "a `b`\nc" + "x" * 500).reason
    assert "`a 'b' c" in reason
    assert len(reason) < 500


def test_the_memory_limit_names_the_setting_that_raises_it() -> None:
    steps = [endings.limited(IDS[:1], what, "sign").next_step for what in ("memory", "disk")]
    assert ["SANDBOX_MEMORY_MB" in step for step in steps] == [True, False]


def test_a_check_without_a_verdict_shows_its_last_line() -> None:
    assert "no module named b" in endings.could_not_start(run(exit_code=4, output="a\n no module named b \n\n")).reason
    assert "4" in endings.could_not_start(run(exit_code=4)).reason
    assert endings.last_line(" \n") == endings.last_line("")
    assert len(endings.last_line("x" * 1000)) == 200
    wrong = "pytest: error: unrecognized arguments: --cov\n  inifile: /repo/pyproject.toml\n  rootdir: /repo\n\n"
    assert endings.last_line(wrong) == "pytest: error: unrecognized arguments: --cov"


def test_the_earlier_step_that_failed_is_named_with_its_own_last_line() -> None:
    reason = endings.stopped_before(run(stopped_at="Build", output="no compiler\nadded by Selfheal")).reason
    assert "`Build`" in reason
    assert "no compiler" in reason
    assert "added by Selfheal" not in reason


def test_a_service_that_did_not_start_is_told_with_who_needs_it_and_its_error() -> None:
    added = 'The service "postgres" could not be started: It was not ready in time.'
    silent = endings.stopped_before(service(added), "workflow ci.yml, job tests")
    assert silent.reason == (
        "The check `tests` (workflow ci.yml, job tests) needs the service postgres, which did not start in the sandbox: it was "
        "not ready in time."
    )
    talking = endings.stopped_before(service(f"FATAL: no space\n{added}"))
    assert talking.reason.endswith(": it was not ready in time; its log ends with `FATAL: no space`.")
    assert "in the workflow" in talking.next_step


@pytest.mark.parametrize(("tried", "counted"), [(1, "1 change "), (1200, "1,200 changes ")])
def test_checked_changes_are_counted_in_singular_and_plural(tried: int, counted: str) -> None:
    out_of_budget = endings.out_of_budget("the budget of 8 iterations is used up", tried).reason
    assert "he budget of 8 iterations is used up" in out_of_budget
    assert counted in out_of_budget
    assert counted in endings.gave_up(tried, (), ()).reason


def test_a_reviewers_reason_is_kept() -> None:
    assert "too large" in endings.rejected("the change", "too large").reason
    assert ":" not in endings.rejected("the change", "").reason


def test_giving_up_adds_up_the_rounds_of_each_rung() -> None:
    rounds = [RungCost("patterns", 1.0, 4, 0, Usage()), RungCost("patterns", 2.0, 5, 1, Usage(), "the last note")]
    reason = endings.gave_up(0, rounds, ()).reason
    assert "9 changes in 3.0 s" in reason
    assert "1 makes" in reason
    assert reason.count("the last note") == 1


@pytest.mark.parametrize(
    ("reason", "since", "step"),
    [
        ("changed since it, in the traceback of 1 failing test", "since it", "This change touched `a.py:3-9`, where it fails."),
        ("changed since the parent commit", "since it", "This change touched `a.py:3-9`. Start there."),
        ("in the traceback of 2 failing tests", "", "It fails in `parse` (a.py:3-9). Start there."),
        ("in the traceback of 2 failing tests", "since it", "It fails in `parse` (a.py:3-9), which this change did not touch."),
        ("runs in failing tests only", "", "Only failing tests run `parse` (a.py:3-9)."),
        ("runs in 2 failing and 3 passing tests", "", "Start at `parse` (a.py:3-9): it runs in 2 failing and 3 passing tests."),
    ],
)  # fmt: skip
def test_giving_up_says_whether_the_change_touched_the_most_suspicious_place(reason: str, since: str, step: str) -> None:
    suspects = (Span("a.py", 3, 9, 0.9, reason, "parse"), Span("b.py", 1, 1, 0.5, "runs in it"))
    told = endings.gave_up(1, (), suspects, since).next_step
    assert told.startswith(step)
    assert "b.py" not in told


def test_giving_up_says_which_changes_pass_the_tests_and_what_a_model_is_sure_of() -> None:
    told = endings.gave_up(
        3, (), (Span("a.py", 3, 9, 0.9, "runs in it"),), objections=("it is a guess", "`f(1)` is 2"), believed="b.py::f"
    )
    assert told.reason.endswith("none was accepted. 2 changes pass the tests; the last was rejected because `f(1)` is 2.")
    assert told.next_step == "By the model's diagnosis, the fault is in `b.py::f`. Start there."


def suspect(*choices: str, alternatives: int = 0) -> Repair:
    diagnosis = Diagnosis("", "logic", 0.5, "verdicts and change")
    log = ReflectionLog(None, (), (), ())
    title = "`[1:]` becomes `[-1:]` in `last` (a.py:3)"
    return Repair((), title, diagnosis, Evidence((), ""), 0.77, Usage(), log, alternatives, choices=choices)


@pytest.mark.parametrize(
    ("unsure", "reason"),
    [
        (suspect(), "`[1:]` becomes `[-1:]` in `last` (a.py:3) (77% sure; a pull request needs 85%)."),
        (
            suspect("`[1:]` becomes `[0:]` in `last` (a.py:3)", alternatives=1),
            "The tests allow two repairs in `last` (a.py:3), `[-1:]` and `[0:]`. Which is right?",
        ),
        (
            suspect("`a` becomes `b`", alternatives=1),
            "The tests allow two repairs: `[1:]` becomes `[-1:]` in `last` (a.py:3), or `a` becomes `b`. Which is right?",
        ),
        (
            suspect("`a` becomes `b`", alternatives=4),
            "`[1:]` becomes `[-1:]` in `last` (a.py:3). 4 other changes pass too; which is right?",
        ),
    ],
)
def test_an_unsure_change_is_a_question_that_names_its_rival_and_says_nothing_twice(unsure: Repair, reason: str) -> None:
    ending = endings.unsure(unsure, 0.85)
    assert ending.reason == reason
    assert "a test that" in ending.next_step
