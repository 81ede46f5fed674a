"""All scenarios are told, whatever becomes of some of them, or of the whole run."""

from __future__ import annotations

import asyncio
import signal
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.chaos.run import table
from tests.chaos.runner import Report, run
from tests.chaos.scenarios import SCENARIOS

HEAD = "| scenario | deliveries acknowledged | lost | doubled | seconds to take over | leftovers |"


def test_the_table_says_what_was_found_and_below_it_what_is_wrong() -> None:
    good = Report("kill-prove", 14, 1, takeover=12.34)
    slow = Report("kill-slow", 14, 1, takeover=61.0)
    bad = Report("storm", 3, 1, lost=("a",), doubled=("b", "c"), leftovers=("folder d",), missed="no\nblow fell")
    assert table([good, slow, bad]).splitlines() == [
        HEAD,
        "| --- | --- | --- | --- | --- | --- |",
        "| kill-prove | 14 | 0 | 0 | 12.3 | 0 |",
        "| kill-slow | 14 | 0 | 0 | 61.0 | 0 |",
        "| storm | 3 | 1 | 2 | – | 1 |",
        "",
        "Not good:",
        "- kill-slow: it took more than 60 s to go on",
        "- storm: no blow fell; a; b; c; folder d",
    ]


@pytest.mark.timeout(120)
@pytest.mark.long
async def test_a_service_that_does_not_start_stops_no_other_scenario() -> None:
    broken = [replace(scenario, setting=replace(scenario.setting, program="tests.chaos.nothing")) for scenario in SCENARIOS[:2]]
    reports: list[Report] = []
    await run(broken, reports.append, at_once=2)
    assert [report.name for report in reports] == [scenario.name for scenario in broken]
    assert all("NotStarted" in report.missed and not report.good for report in reports)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.long
async def test_told_to_end_it_prints_the_table_of_what_there_is(number: signal.Signals) -> None:
    running = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.chaos.run", "kill-claimed", "storm",
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert running.stderr is not None
    async for line in running.stderr:
        if b"2 scenarios" in line:
            break
    running.send_signal(number)
    told, _ = await running.communicate()
    assert running.returncode == 1
    assert told.decode().splitlines()[:4] == [
        HEAD,
        "| --- | --- | --- | --- | --- | --- |",
        "| kill-claimed | 0 | 0 | 0 | – | 0 |",
        "| storm | 0 | 0 | 0 | – | 0 |",
    ]
    assert b"- storm: interrupted before its end" in told
