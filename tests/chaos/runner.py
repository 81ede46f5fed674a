"""Runs scenarios and reports what came of each; used by the tests and by `make chaos`."""

from __future__ import annotations

import asyncio
import itertools
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from tests.chaos import machine
from tests.chaos.judge import Verdict, judge
from tests.chaos.scenarios import Scenario
from tests.chaos.stage import GREEN, PATH, PATIENCE, Missed, NotHere, Stage, leftovers, open_stage
from tests.standins.github.driver import Violations
from tests.story.service import NotStarted

TAKEOVER_SECONDS = 60.0
QUIET_SECONDS = 3.0  # without any request to GitHub: whatever would be doubled has been by then
_TIDY_SECONDS = 30.0
_HEALING_SECONDS = 30.0  # of one head, on a machine that is busy


@dataclass(frozen=True, slots=True)
class Report:
    """What came of one scenario. `takeover`: the longest time, in seconds, from a blow (or the end of an outage) until the work
    went on, as seen by GitHub. `missed`: why the scenario could not be carried
    out. `skipped`: why this machine cannot show it at all."""

    name: str
    acknowledged: int = 0
    red: int = 0
    lost: tuple[str, ...] = ()
    doubled: tuple[str, ...] = ()
    takeover: float | None = None
    leftovers: tuple[str, ...] = ()
    missed: str = ""
    skipped: str = ""
    notes: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def slow(self) -> bool:
        return self.takeover is not None and self.takeover > TAKEOVER_SECONDS

    @property
    def good(self) -> bool:
        return not (self.lost or self.doubled or self.leftovers or self.missed or self.skipped or self.slow)


async def run(scenarios: Iterable[Scenario], tell: Callable[[Report], None]) -> list[Report]:
    """All of them, one at a time, each told when it is over; those that follow each other under the same setting share a
    service."""
    reports: list[Report] = []
    for _, group in itertools.groupby(scenarios, key=lambda scenario: scenario.setting):
        reports += await _on_one_stage(list(group), tell)
    return reports


async def _on_one_stage(scenarios: list[Scenario], tell: Callable[[Report], None]) -> list[Report]:
    """The last report also tells what was left once the service had been stopped."""
    reports: list[Report] = []
    told = 0
    with tempfile.TemporaryDirectory(prefix="selfheal-chaos-", ignore_cleanup_errors=True) as made:
        folder, owner, wrong = Path(made), "", ""  # no owner: nothing was started
        try:
            async with open_stage(scenarios[0].setting, folder) as stage:
                owner = stage.owner
                for scenario in scenarios:
                    reports.append(await _run_one(scenario, stage))
                    if scenario is not scenarios[-1]:
                        tell(reports[-1])
                        told += 1
        except Violations as violations:
            wrong = f"GitHub's own description is violated: {violations}"
        except NotHere as error:
            reports += [Report(scenario.name, skipped=str(error)) for scenario in scenarios[len(reports) :]]
        except (NotStarted, Missed) as error:
            reports += [Report(scenario.name, missed=str(error)) for scenario in scenarios[len(reports) :]]
        left = await _gone(lambda: machine.everything(folder, owner)) if owner else []
    last = reports.pop()
    reports.append(replace(last, missed=last.missed or wrong, leftovers=(*last.leftovers, *left)))
    for report in reports[told:]:
        tell(report)
    return reports


async def _run_one(scenario: Scenario, stage: Stage) -> Report:
    began = time.monotonic()
    stage.begin()
    missed = ""
    try:
        async with asyncio.timeout(4 * PATIENCE):
            await scenario.act(stage, scenario.name)
    except TimeoutError:
        missed = "the scenario took too long"
    except (Missed, AssertionError, OSError, ValueError) as error:
        missed = f"{type(error).__name__}: {error}"
    verdict = await _settled(scenario, stage)
    takeovers = stage.takeovers()
    if not missed and not takeovers:
        missed = "no blow fell"
    elif None in takeovers:
        missed = missed or "nobody went on"
    return Report(
        name=scenario.name,
        acknowledged=verdict.acknowledged,
        red=verdict.red,
        lost=verdict.lost,
        doubled=verdict.doubled,
        takeover=max((seconds for seconds in takeovers if seconds is not None), default=None),
        leftovers=tuple(await _gone(lambda: leftovers(stage))),
        missed=missed,
        notes=tuple(stage.notes),
        seconds=time.monotonic() - began,
    )


async def _settled(scenario: Scenario, stage: Stage) -> Verdict:
    """The verdict once nothing is missing and nothing happens any more, or when patience is over."""
    deadline = time.monotonic() + PATIENCE + scenario.heads * _HEALING_SECONDS
    while True:
        await stage.github.settled()
        verdict = await judge(stage.github, stage.deliveries, GREEN[PATH], PATH)
        if verdict.red < scenario.heads:
            verdict = Verdict(
                verdict.acknowledged, verdict.red, (*verdict.lost, "not every red run was taken"), verdict.doubled
            )
        quiet = time.monotonic() - stage.last_request() > QUIET_SECONDS
        if verdict.doubled:  # which nothing mends: the rest gets a little time, to be told too
            deadline = min(deadline, time.monotonic() + _TIDY_SECONDS)
        over = quiet and not verdict.lost and None not in stage.takeovers() and await stage.is_idle()
        if over or time.monotonic() > deadline:
            return verdict
        await asyncio.sleep(0.5)


async def _gone(left: Callable[[], list[str]]) -> list[str]:
    """What is still there after a while."""
    deadline = time.monotonic() + _TIDY_SECONDS
    while True:
        found = await asyncio.to_thread(left)
        if not found or time.monotonic() > deadline:
            return found
        await asyncio.sleep(0.5)
