"""Many changes in a row in one process."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from agent.guest.trial.batch import DEATHS, Batch


class Deadly:
    """A test that ends its process."""

    reached = None

    def again(self) -> Any:
        os._exit(3)


def test_a_batch_whose_processes_die_at_once_gives_up(tmp_path: Path) -> None:
    batch = Batch(str(tmp_path), lambda _: lambda: None, [(Deadly(), 0.01, 0.01)], None, ())
    assert all(outcome is None for _, outcome in batch.run([[]] * 200, time.monotonic() + 30))
    assert batch.is_broken
    assert batch.tried == DEATHS
