"""The seed of a run in CI is read where a log tells it, and nothing else is taken for one."""

from __future__ import annotations

import pytest

from agent.ci.logs import read_seed


@pytest.mark.parametrize(
    ("log", "seed"),
    [
        ("Using --randomly-seed=1234567890\nplatform linux", 1234567890),
        ("random seed: 42", 42),
        ("Random seed set to 7.", 7),
        ("RANDOM_SEED=99", 99),
        ("the random seeds of 12 plants", None),
        ("randomly-seeded in 3 ways", None),
        ("--randomly-seed=123456789012345", None),
        ("", None),
    ],
)
def test_what_a_log_tells(log: str, seed: int | None) -> None:
    assert read_seed(log) == seed
