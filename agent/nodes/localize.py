"""Where may it be? Suspicious places from tracebacks and traced runs; a repair can go on without any."""

from __future__ import annotations

from collections.abc import Sequence

from agent import words
from agent.contract.events import Localized
from agent.contract.proposal import Span
from agent.contract.verdicts import CheckRun, Oracle
from agent.reproduce.localization import localize as suspects_of
from agent.state import State, Work, fell_back
from sandbox.base import DeadlinePassed, LimitExceeded

LONGEST = 30.0  # seconds


async def localize(state: State, work: Work) -> State:
    """Raises `SandboxError` when the sandbox is lost."""
    context = work.context
    oracle = await context.recall(Oracle, state["oracle_ref"])
    red = await context.recall(tuple[CheckRun, ...], state["base_ref"])
    fallen: State = {}
    try:
        suspects = await suspects_of(
            work.task.sandbox, work.runner, oracle, red, emit=context.emit, seconds=min(LONGEST, work.ledger.seconds_left() / 4)
        )
    except (LimitExceeded, DeadlinePassed) as error:
        suspects = ()
        fallen = await fell_back(work, "localize", f"Localization was given up: {error}.")
    shown = [f"{s.path}:{s.first_line}-{s.last_line} {s.score:.2f} {s.reason}" for s in suspects[:20]]
    await context.emit(Localized(text=_told(suspects), suspects=shown))
    return {"suspects_ref": await context.keep(suspects), **fallen}


def _told(suspects: Sequence[Span]) -> str:
    if not suspects:
        return "No place stands out"
    return f"{words.opening(len(suspects), 'suspicious place')}, first {words.place(suspects[0])}"
