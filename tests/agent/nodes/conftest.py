"""What a step decides is looked at here; the runs that it decides on are the same in many tests."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _remembered_runs(remembered_runs: None) -> None: ...
