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
from tests.chaos.stage import GREEN, PATH, PATIENCE, NotHere, Stage, leftovers, open_stage
from tests.standins.github.driver import Violations

TAKEOVER_SECONDS = 60.0
QUIET_SECONDS = 3.0  # without any request to GitHub: whatever would be doubled has been by then
_TIDY_SECONDS = 30.0
_HEALING_SECONDS = 30.0  # of one head, on a machine that is busy
_ACT_SECONDS = 3 * PATIENCE  # of what is done to the service
_ON_ONE_STAGE = 4  # scenarios, at most: so that as many services as may run at once have something to do to the end


@dataclass(frozen=True, slots=True)
class Report:
    """What came of one scenario. `takeover`: the longest time, in seconds, from a blow (or the end of an outage) until the work
    went on, as seen by GitHub. `missed`: why the scenario could not be carried out. `skipped`: why this machine cannot show it
    at all."""

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


async def run(scenarios: Iterable[Scenario], tell: Callable[[Report], None], at_once: int = 1) -> None:
    """All of them, each told when it is over, in whatever order; a few that follow each other under one setting share a
    service. So many services run at once; those scenarios that want to be alone come last, and are."""
    chosen = list(scenarios)
    limit = asyncio.Semaphore(at_once)

    async def one(group: list[Scenario]) -> None:
        async with limit:
            while group:
                group = await _on_one_stage(group, tell)

    async with asyncio.TaskGroup() as tasks:
        for group in _groups(scenario for scenario in chosen if not scenario.alone):
            tasks.create_task(one(group))
    for group in _groups(scenario for scenario in chosen if scenario.alone):
        await one(group)


def _groups(scenarios: Iterable[Scenario]) -> list[list[Scenario]]:
    alike = [list(group) for _, group in itertools.groupby(scenarios, key=lambda scenario: scenario.setting)]
    return [group[first : first + _ON_ONE_STAGE] for group in alike for first in range(0, len(group), _ON_ONE_STAGE)]


async def _on_one_stage(scenarios: list[Scenario], tell: Callable[[Report], None]) -> list[Scenario]:
    """Run them until one is not good; the rest, which needs another service. Nothing that goes wrong is raised.

    The last report also tells what was left once the service had been stopped.
    """
    reports: list[Report] = []
    with tempfile.TemporaryDirectory(prefix="selfheal-chaos-", ignore_cleanup_errors=True) as made:
        folder, owner, wrong, skipped = Path(made), "", "", ""  # no owner: nothing was started
        try:
            async with open_stage(scenarios[0].setting, folder) as stage:
                owner = stage.owner
                for scenario in scenarios:
                    for report in reports[-1:]:
                        tell(report)
                    reports.append(await _run_one(scenario, stage))
                    if not reports[-1].good:
                        break
        except Violations as violations:
            wrong = f"GitHub's own description is violated: {violations}"
        except NotHere as error:
            skipped = str(error)
        except Exception as error:  # noqa: BLE001 - a service that could not be run says nothing of the others
            wrong = f"{type(error).__name__}: {error}"
        left = await _gone(lambda: machine.everything(folder, owner)) if owner else []
    last = reports[-1] if reports else Report(scenarios[0].name, skipped=skipped)
    tell(replace(last, missed=last.missed or wrong, leftovers=(*last.leftovers, *left)))
    return scenarios[max(len(reports), 1) :]


async def _run_one(scenario: Scenario, stage: Stage) -> Report:
    began = time.monotonic()
    stage.begin()
    missed = ""
    try:
        async with asyncio.timeout(_ACT_SECONDS):
            await scenario.act(stage, scenario.name)
    except TimeoutError:
        missed = f"it was not done within {_ACT_SECONDS:.0f} s"
    except Exception as error:  # noqa: BLE001 - what it has done until then is judged all the same
        missed = f"{type(error).__name__}: {error}"
    deadline = PATIENCE + scenario.heads * _HEALING_SECONDS
    verdict = Verdict(0, 0, (), ())
    try:
        async with asyncio.timeout(deadline + PATIENCE):  # GitHub itself may not come to rest
            verdict = await _settled(scenario, stage, deadline)
    except Exception as error:  # noqa: BLE001 - what could not be judged is no success
        missed = missed or f"it could not be judged: {error!r}"
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


async def _settled(scenario: Scenario, stage: Stage, seconds: float) -> Verdict:
    """The verdict once nothing is missing and nothing happens any more, or after so many seconds."""
    deadline = time.monotonic() + seconds
    while True:
        await stage.github.settled()
        verdict = await judge(stage.github, stage.deliveries, GREEN[PATH], PATH)
        if verdict.red < scenario.heads:
            verdict = Verdict(
                verdict.acknowledged,
                verdict.red,
                (*verdict.lost, f"{verdict.red} of {scenario.heads} red commits were taken"),
                verdict.doubled,
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
