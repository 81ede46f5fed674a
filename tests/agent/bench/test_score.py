"""The figures over all tasks."""

from __future__ import annotations

import pytest

from agent.bench.lab import Judgement
from agent.bench.score import (
    Entry,
    bootstrap,
    entry,
    failed,
    interval,
    quantile,
    reliability,
    repaired,
    repeated,
    share,
    skipped,
    summary,
)
from agent.contract.budget import RungCost, Usage  # fmt: skip
from agent.contract.outcome import Evidence, Iteration, NoRepair, Outcome, ReflectionLog, Repair  # fmt: skip
from agent.contract.proposal import Diagnosis, FileChange  # fmt: skip

EDITS = (FileChange("a.py", "x = 1\n", "x = 2\n"),)


def log(*rungs: RungCost) -> ReflectionLog:
    return ReflectionLog(None, (Iteration(1, "patterns", "title", "", "verified"),), (), rungs)


def healed(id_: str, seconds: float, right: bool | None, confidence: float = 0.9, group: str = "one") -> Entry:
    rungs = log(RungCost("tools", 1.0, 2, 0, Usage()), RungCost("patterns", 1.0, 40, 1, Usage()))
    repair = Repair(
        EDITS, "`1` becomes `2`", Diagnosis("", "", 0.5, ""), Evidence((), ""), confidence, Usage(10, 5, 1, 0.25), rungs
    )
    return entry(id_, group, repair, seconds, Judgement(right, "3 held-out tests"))


def ended(id_: str, outcome: Outcome, group: str = "one", *rungs: RungCost) -> Entry:
    rungs = rungs or (RungCost("patterns", 1, 7, 0, Usage()),)
    return entry(id_, group, NoRepair(outcome, "because", "", Usage(), log(*rungs)), 60.0, None)


def test_an_entry_says_what_a_repair_cost_and_how_it_was_judged() -> None:
    one = healed("a", 2.5, True)
    assert (one.outcome, one.plausible, one.heldout_correct, one.judged_by) == ("healed", True, True, "3 held-out tests")
    assert (one.seconds, one.candidates, one.tokens, one.cost, one.iterations) == (2.5, 42, 15, 0.25, 1)
    assert (one.rung, one.title, one.confidence, one.error) == ("patterns", "`1` becomes `2`", 0.9, None)
    assert one.diff is not None
    assert "+x = 2" in one.diff


def test_the_summary_counts_what_was_healed_and_nothing_else() -> None:
    entries = [
        healed("a", 2.0, True), healed("b", 4.0, False), healed("c", 12.0, None, group="two"), ended("d", Outcome.GAVE_UP),
        ended("e", Outcome.INFRASTRUCTURE), failed("f", "two", Outcome.ERROR, "it broke"), skipped("g", "two", "green"),
    ]  # fmt: skip
    total = summary(entries)
    assert (total.tasks, total.skipped, total.plausible, total.heldout_correct, total.judged, total.failed) == (
        6,
        1,
        3,
        1,
        2,
        2,
    )
    assert (total.median_s, total.p90_s) == (4.0, 10.4)
    assert (total.candidates, total.tokens, total.cost) == (3 * 42 + 2 * 7, 45, 0.75)
    assert {name: shares["plausible"].of for name, shares in total.groups.items()} == {"one": 3, "two": 1}, "those tried"
    assert (total.intervals["plausible"].count, total.intervals["plausible"].of) == (3, 4)
    assert total.rungs == {"patterns": 3}
    assert [entry.error for entry in entries if entry.error] == ["because", "it broke"]


def test_a_task_whose_model_could_not_be_asked_is_an_error_and_no_wrong_answer() -> None:
    asked, away = RungCost("model:m", 1, 1, 0, Usage(10, 5, 1)), "the model m is not reachable: refused"
    lost = RungCost("model:m", 1, 0, 0, Usage(calls=1), away, is_outage=True)
    skipped_rung = RungCost("model:big", 0, 0, 0, Usage(), "there is no failure to show to a model")
    for rungs in ((lost,), (asked, lost), (lost, skipped_rung)):
        one = ended("a", Outcome.GAVE_UP, "one", *rungs)
        assert (one.outcome, one.error) == ("infrastructure", "The model m is not reachable: refused.")
    for rungs in ((lost, asked), (asked,)):
        assert ended("a", Outcome.GAVE_UP, "one", *rungs).error is None, "a later answer could be judged"


def test_runs_of_one_task_count_as_one_trial() -> None:
    once = summary([healed(id_, 1.0, id_ in "ab") for id_ in "abcd"])
    entries = [healed(repeated(id_, run), 1.0, id_ in "ab") for id_ in "abcd" for run in range(1, 11)]
    total, share_of = summary(entries), summary(entries).intervals["heldout_correct"]
    assert (total.tasks, total.distinct, share_of.count, share_of.of) == (40, 4, 20, 40)
    one = once.intervals["heldout_correct"]
    assert (share_of.low, share_of.high) == (one.low, one.high), "ten runs of the same tasks say nothing about other tasks"
    (band,) = total.reliability
    assert (band.correct.low, band.correct.high) == (one.low, one.high)


def test_nothing_done_gives_figures_of_nothing() -> None:
    total = summary([])
    assert (total.tasks, total.plausible, total.median_s, total.p90_s, total.cost) == (0, 0, None, None, 0.0)


# As told by R's `binom::binom.confint(x, n, methods="wilson")`.
@pytest.mark.parametrize(
    ("count", "of", "low", "high"),
    [(8, 10, 0.4902, 0.9433), (0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (78, 82, 0.8812, 0.9809)],
)
def test_the_interval_is_wilsons(count: int, of: int, low: float, high: float) -> None:
    told = share(count, of)
    assert (told.low, told.high) == (pytest.approx(low, abs=2e-4), pytest.approx(high, abs=2e-4))


def test_a_bootstrap_of_equal_rates_says_nothing_so_the_interval_is_wilsons() -> None:
    assert bootstrap([0.0] * 3) == interval(0, 3)
    assert bootstrap([1.0] * 3) == interval(3, 3)
    assert bootstrap([0.5] * 3) == interval(1.5, 3)
    assert bootstrap([0.0, 1.0, 1.0]) == (0.0, 1.0)


def test_first_answers_have_an_interval_too() -> None:
    known = [Entry(id=id_, group="g", outcome="healed", plausible=True, details={"base": id_ == "a"}) for id_ in "abc"]
    assert summary(known).intervals["base"] == share(1, 3)
    assert "base" not in summary([healed("a", 1.0, True)]).intervals


def test_repairs_are_counted_in_the_words_of_written_code() -> None:
    known = [healed("a", 1.0, True), healed("b", 1.0, False), healed("c", 1.0, None)]
    known += [Entry(id="d", group="g", outcome="gave_up", plausible=False), failed("e", "g", Outcome.ERROR, "lost")]
    assert repaired(known) == {"base": 0, "healed": 1, "unresolved": 1, "validated": 1}


def test_quantiles_lie_between_neighbours() -> None:
    assert quantile([], 0.5) is None
    assert quantile([3.0], 0.9) == 3.0
    assert quantile([1.0, 2.0, 3.0, 4.0], 0.5) == 2.5


def test_the_reliability_table_sets_confidence_beside_what_was_right() -> None:
    entries = [healed("a", 1, True, 0.95), healed("b", 1, True, 1.0), healed("c", 1, False, 0.92), healed("d", 1, False, 0.3)]
    entries += [healed("e", 1, None, 0.95), ended("f", Outcome.GAVE_UP)]
    low, high = reliability((one.id, one.confidence, one.heldout_correct) for one in entries)
    assert (low.low, low.high, low.correct.count, low.correct.of) == (0.0, 0.5, 0, 1)
    assert (high.low, high.high, high.correct.count, high.correct.of) == (0.9, 1.0, 2, 3)
    assert high.mean_confidence == pytest.approx((0.95 + 1.0 + 0.92) / 3, abs=1e-4)
