"""Figures that are kept: counters which a timeline's events add to, in the very transaction that keeps the event.

So they are the same whichever process is asked, survive every kill, and agree with the timeline. Labels come from the
closed lists of our own code and from the operator's names of models, never from a repository.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from agent.contract.events import AnyEvent, Degraded, ModelCalled, SandboxOpened, StepDone

Name = Literal["model_calls", "model_tokens", "model_cost", "model_seconds", "steps", "step_seconds", "sandboxes",
               "sandbox_seconds", "fallbacks"]  # fmt: skip
Key = tuple[Name, str, str]
"""What is counted, and up to two labels."""

LONGEST_LABEL: Final = 100
# The same words on SQLite and PostgreSQL.
_ADD: Final = text(
    "INSERT INTO meters (name, label, detail, value) VALUES (:name, :label, :detail, :value) "
    "ON CONFLICT (name, label, detail) DO UPDATE SET value = meters.value + excluded.value"
)


async def count(session: AsyncSession, event: AnyEvent) -> None:
    """Add what the event tells. In the order of their keys, so that two transactions never wait for each other."""
    rows = [
        {"name": name, "label": label[:LONGEST_LABEL], "detail": detail, "value": value}
        for (name, label, detail), value in sorted(increments(event).items())
        if value > 0
    ]
    if rows:
        await session.execute(_ADD, rows)


def increments(event: AnyEvent) -> Mapping[Key, float]:
    """By how much an event raises which counters; pure."""
    match event:
        case ModelCalled(model=model):
            return {
                ("model_calls", model, "failed" if event.error else "answered"): 1.0,
                ("model_tokens", model, "input"): float(event.tokens_in),
                ("model_tokens", model, "output"): float(event.tokens_out),
                ("model_cost", model, ""): event.cost or 0.0,
                ("model_seconds", model, ""): event.seconds,
            }
        case StepDone(step=step):
            return {("steps", step, ""): 1.0, ("step_seconds", step, ""): event.seconds}
        case SandboxOpened(sandbox=kind):
            return {
                ("sandboxes", kind, "failed" if event.error else "opened"): 1.0,
                ("sandbox_seconds", kind, "failed" if event.error else "opened"): event.seconds,
            }
        case Degraded(step=step):
            return {("fallbacks", step, ""): 1.0}
        case _:
            return {}
