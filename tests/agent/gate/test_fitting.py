"""The confidence is fitted on judged changes, and shown how it does on repositories that it was not fitted on."""

import random
from collections.abc import Iterator
from dataclasses import replace

import msgspec
import pytest

from agent.bench.lab import VERIFIED
from agent.bench.score import Entry
from agent.contract.outcome import VERY_SURE
from agent.gate.confidence import coefficients, confidence_of
from agent.gate.fitting import ESTIMATES, Observation, fit, observations

DAY = "2026-11-26"


def repairs(
    repository: str, count: int, *, right: float, doubtful: float, seed: int = 1, kind: str = "patterns"
) -> Iterator[Observation]:
    """As many changes; of those without a doubt the share `right` is right, of those with one `doubtful`."""
    rng = random.Random(f"{repository} {seed}")
    for at in range(count):
        doubts = float(at % 2)
        signals = {"prior": 0.8, "doubts": doubts, "alternatives": 0.0, "kept": float(at % 3 == 0)}
        yield Observation(repository, kind, signals, rng.random() < (doubtful if doubts else right))


def test_without_data_the_estimates_stay_and_nothing_is_very_sure() -> None:
    found = fit([], DAY)
    assert {kind: each.coefficients for kind, each in found.items()} == dict(ESTIMATES)
    assert not any(each.coefficients.very_sure for each in found.values())


def test_a_few_observations_or_a_single_repository_change_no_coefficient() -> None:
    few = [*repairs("a", 9, right=0, doubtful=0), *repairs("b", 9, right=0, doubtful=0)]
    single = list(repairs("a", 500, right=0, doubtful=0))
    for known in (few, single):
        found = fit(known, DAY)["patterns"]
        assert found.coefficients == ESTIMATES["patterns"]
        assert found.observations == len(known)


def test_the_fitted_confidence_is_the_share_that_is_right() -> None:
    known = [one for name in "abcd" for one in repairs(name, 200, right=0.9, doubtful=0.4)]
    found = fit(known, DAY)["patterns"]
    for doubts, share in ((0.0, 0.9), (1.0, 0.4)):
        value = confidence_of(found.coefficients, {"prior": 0.8, "doubts": doubts, "kept": 1 / 3})
        assert value == pytest.approx(share, abs=0.06), doubts
    assert found.coefficients.data.startswith("800 verified changes, ")
    assert "from a, b, c, d" in found.coefficients.data
    assert found.coefficients.date == DAY


def test_breaks_of_a_program_do_not_make_repairs_of_peoples_bugs_surer() -> None:
    made = [replace(one, by_program=True) for name in "abcd" for one in repairs(name, 100, right=0.95, doubtful=0.7)]
    people = [one for name in "efgh" for one in repairs(name, 40, right=0.6, doubtful=0.2)]
    found = fit([*made, *people], DAY)["patterns"]
    value = confidence_of(found.coefficients, {"prior": 0.8, "kept": 1 / 3})
    assert value == pytest.approx(0.6, abs=0.1)
    assert sum(band.correct.of for band in found.reliability) == len(people), "only those are judged"
    assert f"({len(people)} and {sum(one.right for one in people)} for people's bugs)" in found.coefficients.data
    alone = fit(made, DAY)["patterns"]
    assert confidence_of(alone.coefficients, {"prior": 0.8, "kept": 1 / 3}) > 0.9


def test_each_kind_of_rung_has_its_own_coefficients() -> None:
    known = [
        one
        for name in "ab"
        for kind, right in (("patterns", 0.95), ("model", 0.3))
        for one in repairs(name, 100, right=right, doubtful=right, kind=kind)
    ]
    found = fit(known, DAY)
    clean = {"prior": 0.8}
    assert confidence_of(found["patterns"].coefficients, clean) > 0.85
    assert confidence_of(found["model"].coefficients, clean) < 0.5
    assert found["history"].coefficients == ESTIMATES["history"]


def test_a_doubt_never_makes_a_repair_surer() -> None:
    known = [one for name in "ab" for one in repairs(name, 200, right=0.3, doubtful=0.95)]
    weights = fit(known, DAY)["patterns"].coefficients.weights
    assert weights.get("doubts", 0.0) <= 0


def test_a_repository_is_judged_by_coefficients_of_the_others() -> None:
    known = [
        *(one for name in "abc" for one in repairs(name, 100, right=1.0, doubtful=1.0)),
        *repairs("odd", 100, right=0.0, doubtful=0.0),
    ]
    found = fit(known, DAY)["patterns"]
    # Those of `odd` were believed by the coefficients of the others, and all wrong.
    top = found.reliability[-1]
    assert top.correct.of - top.correct.count == 100
    half = next(at for at in found.thresholds if at.threshold == 0.5)
    assert (half.precision.count, half.published.of) == (half.published.count, 300)


@pytest.mark.parametrize(
    ("count", "right", "earned"), [(40, 1.0, True), (10, 1.0, False), (40, 0.9, False)], ids=["earned", "too few", "too wrong"]
)
def test_very_sure_has_to_be_earned_on_repositories_that_were_left_out(count: int, right: float, earned: bool) -> None:
    known = [one for name in "abcd" for one in repairs(name, count, right=right, doubtful=0.2)]
    found = fit(known, DAY)["patterns"]
    assert found.coefficients.very_sure is earned, found.very_sure
    best = confidence_of(found.coefficients, {"prior": 1.0, "kept": 1.0})
    assert (best >= VERY_SURE) is earned


def test_very_sure_is_not_earned_in_one_repository() -> None:
    known = [*repairs("a", 400, right=1.0, doubtful=0.2), *repairs("b", 100, right=1.0, doubtful=0.2)]
    assert not fit(known, DAY)["patterns"].coefficients.very_sure


def test_only_judged_changes_with_signals_are_observations() -> None:
    changes = [
        {"rung": "model:m", "signals": {"prior": 0.5}, "right": True, "diff": "-a\n+b\n"},
        {"rung": "model:m", "signals": {"prior": 0.4}, "right": True, "diff": "-a\n+b\n"},
        {"rung": "patterns", "signals": {"prior": 0.5}, "right": None},
        {"rung": "patterns", "signals": {}, "right": True},
        {"rung": "patterns"},
        "no change",
    ]
    entries = [
        Entry(id="a", group="g", outcome="gave_up", plausible=False, details={VERIFIED: changes}),
        Entry(id="b", group="g", outcome="gave_up", plausible=False),
        Entry(id="c", group="g", outcome="gave_up", plausible=False, details={VERIFIED: "nothing"}),
    ]
    assert list(observations("shop", entries)) == [Observation("shop", "model", {"prior": 0.5}, right=True)]


def test_the_stored_coefficients_name_their_data() -> None:
    for kind, known in coefficients().items():
        assert known.data, kind
        assert known.date or known == ESTIMATES[kind]
        assert not (known.very_sure and known == ESTIMATES[kind])
    assert set(coefficients()) == set(ESTIMATES)
    assert msgspec.json.encode(coefficients())
