"""The logs of the stand-in repositories' jobs (tests/data/replays): they name the very tests that the recorded runs did."""

import json
from pathlib import Path

import pytest

from agent.ci.logs import Cause, read_log

REPLAYS = Path(__file__).resolve().parents[3] / "data" / "replays"
LOGS = sorted(path for path in REPLAYS.glob("*/*.log") if path.stem != "lint")  # findings have no names


@pytest.mark.parametrize("log", LOGS, ids=lambda log: f"{log.parent.name}/{log.stem}")
def test_a_log_names_the_tests_that_failed(log: Path) -> None:
    reading = read_log(log.read_text())
    assert reading.cause is Cause.TEST
    told, failing = sorted(reading.ids), json.loads(log.with_suffix(".json").read_text())["failing"]
    assert len(told) == len(failing)
    # A log tells paths as seen from the folder that the step runs in.
    assert all(f"/{id_}".endswith(f"/{said}") for id_, said in zip(failing, told, strict=True)), (told, failing)
