"""Locates the fault: the suspicious code, most suspicious first."""

from __future__ import annotations

import asyncio

from agent.contract import words
from agent.contract.events import Localized
from agent.contract.last_good import Regression
from agent.contract.verdicts import CheckRun, Oracle
from agent.reproduce.localization import changed_first
from agent.reproduce.localization import localize as suspects_of
from agent.state import Baseline, State, Work, fell_back
from sandbox.base import DeadlinePassed, LimitExceeded

LONGEST = 30.0  # seconds for locating the fault


async def localize(state: State, work: Work) -> Baseline:
    """Raises `SandboxError` when the sandbox is lost."""
    context = work.context
    oracle = await context.recall(Oracle, state["oracle_ref"])
    red = await context.recall(tuple[CheckRun, ...], state["base_ref"])
    update: Baseline = {}
    try:
        suspects = await suspects_of(
            work.task.sandbox, work.runner, oracle, red, emit=context.emit, seconds=min(LONGEST, work.ledger.seconds_left() / 4)
        )
    except (LimitExceeded, DeadlinePassed) as error:
        suspects = ()
        update = await fell_back(work, "localize", f"The fault was not located: {error}.")
    if ref := state.get("regression_ref"):
        regression = await context.recall(Regression, ref)
        suspects = await asyncio.to_thread(changed_first, suspects, regression)
    shown = [f"{s.path}:{s.first_line}-{s.last_line} {s.score:.2f} {s.reason}" for s in suspects[:20]]
    text = "No suspicious location found"
    if suspects:
        text = f"{words.counted(len(suspects), 'suspicious location')}, first {words.location(suspects[0])}"
    await context.emit(Localized(text=text, suspects=shown))
    update["suspects_ref"] = await context.keep(suspects)
    return update
