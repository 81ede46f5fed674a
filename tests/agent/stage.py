"""What the engine does before it asks a rung, in short: run the tests, take what is red as the target, localise."""

from __future__ import annotations

from collections.abc import Mapping

from agent.checks.runner import Runner
from agent.contract.events import AnyEvent
from agent.contract.proposal import Span
from agent.contract.task import Policy
from agent.contract.verdicts import Check, CheckRun, Oracle, Reader, Step
from agent.proposer import Situation
from agent.reproduce.localization import localize
from sandbox.base import Sandbox


async def situation(
    sandbox: Sandbox,
    command: str = "python -m pytest -q",
    reader: Reader = "pytest",
    seconds: float = 15.0,
    env: Mapping[str, str] = {},
    timeout: float = 120.0,
    before: tuple[Step, ...] = (),
) -> Situation:
    """Raises AssertionError when the localisation had to fall back."""
    check = Check("tests", command, reader, timeout=timeout, env=env, before=before)
    runner = Runner(sandbox)
    events: list[AnyEvent] = []

    async def emit(event: AnyEvent) -> None:
        events.append(event)

    async with sandbox.candidate() as workspace:
        run: CheckRun = await runner.run(workspace, check)
    oracle = Oracle((check,), {"tests": run.red}, {"tests": run.green})
    suspects: tuple[Span, ...] = await localize(sandbox, runner, oracle, (run,), emit=emit)
    assert not events, events
    return Situation(sandbox, runner, oracle, (run,), suspects, Policy(), emit, seconds)
