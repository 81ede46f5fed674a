"""Stored counters, incremented by timeline events in the transaction that stores the event.

So every process reports the same numbers, they survive kills, and they agree with the timeline. Labels come from closed lists
in our code and from the operator's model names, never from a repository.
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
"""A counter's name and up to two labels."""

LONGEST_LABEL: Final = 100
# Valid on SQLite and PostgreSQL.
_ADD: Final = text(
    "INSERT INTO meters (name, label, detail, value) VALUES (:name, :label, :detail, :value) "
    "ON CONFLICT (name, label, detail) DO UPDATE SET value = meters.value + excluded.value"
)


async def count(session: AsyncSession, event: AnyEvent) -> None:
    """Add the event's increments, ordered by key, so that two transactions never deadlock."""
    rows = [
        {"name": name, "label": label[:LONGEST_LABEL], "detail": detail, "value": value}
        for (name, label, detail), value in sorted(increments(event).items())
        if value > 0
    ]
    if rows:
        await session.execute(_ADD, rows)


def increments(event: AnyEvent) -> Mapping[Key, float]:
    """Which counters an event increments, by how much; pure."""
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
