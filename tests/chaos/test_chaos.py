"""A few scenarios in every run of the tests; `make chaos` runs them all. And: without leases the suite notices."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.chaos.run import table
from tests.chaos.runner import Report, run
from tests.chaos.scenarios import SCENARIOS, Scenario

pytestmark = pytest.mark.long
BRIEF = [scenario for scenario in SCENARIOS if scenario.brief]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("scenario", BRIEF, ids=lambda scenario: scenario.name)
async def test_nothing_is_lost_doubled_or_left(scenario: Scenario) -> None:
    reports: list[Report] = []
    await run([scenario], reports.append)
    assert [report.good for report in reports] == [True], f"{table(reports)}\n{reports}"


@pytest.mark.timeout(900)
async def test_without_leases_it_is_noticed() -> None:
    (frozen,) = (scenario for scenario in SCENARIOS if scenario.name == "worker-frozen")
    unleased = replace(frozen, setting=replace(frozen.setting, program="tests.chaos.unleased"))
    reports: list[Report] = []
    await run([unleased], reports.append)
    assert reports[0].doubled, reports[0]
    assert not reports[0].good
