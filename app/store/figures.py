"""Totals over the tables at one moment, for `/metrics`, including the stored counters (`meters`).

Attempts and deliveries are never deleted, so counters only grow. Meters are incremented by timeline events in the transaction
that stores the event: so every process reports the same numbers, they survive kills, and they agree with the timeline. Labels
come from closed lists in our code and from the operator's model names, never from a repository.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

from sqlalchemy import ColumnElement, Double, and_, case, func, or_, select, text
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import GenericFunction

from agent.contract.events import AnyEvent, Degraded, ModelCalled, SandboxOpened, StepDone
from app.store.models import AttemptRow, DeliveryRow, MeterRow, PullRequestRow

BOUNDS: Final = (1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 1800.0, 3600.0)
"""Upper bounds of the duration buckets, in seconds."""


@dataclass(frozen=True, slots=True)
class Histogram:
    """Durations in seconds: how many are at most each of `BOUNDS`, their count and their sum."""

    buckets: tuple[int, ...]
    count: int
    sum: float


@dataclass(frozen=True, slots=True)
class Figures:
    """Counters over all time, except those marked "now"."""

    deliveries: Mapping[str, int]  # by decision
    created: Mapping[str, int]  # attempts by trigger
    ended: Mapping[str, int]  # attempts by outcome
    lasted: Mapping[str, Histogram]  # ended attempts by outcome, from the first claim to the end
    picked_up: Histogram  # from the trigger to the first claim
    claims: int
    standing: Mapping[str, int]  # attempts by status, now
    due: int  # queued attempts that a worker could claim now
    oldest_due: float  # how long the oldest of them has waited, in seconds
    leases: Mapping[str, int]  # held, expired; now
    unreported: int  # ended attempts whose outcome is not reported to GitHub yet, now
    pulls: Mapping[str, int]  # our pull requests by state, now
    meters: Mapping[tuple[str, str, str], float]  # see `app.store.figures`


class _seconds_between(GenericFunction[float]):
    """Seconds between two times, in each database's SQL."""

    type = Double()
    inherit_cache = True


@compiles(_seconds_between, "sqlite")
def _on_sqlite(element: Any, compiler: SQLCompiler, **kwargs: Any) -> str:
    start, end = (compiler.process(clause, **kwargs) for clause in element.clauses)
    return f"((julianday({end}) - julianday({start})) * 86400.0)"


@compiles(_seconds_between)
def _elsewhere(element: Any, compiler: SQLCompiler, **kwargs: Any) -> str:
    start, end = (compiler.process(clause, **kwargs) for clause in element.clauses)
    return f"EXTRACT(EPOCH FROM ({end} - {start}))"


async def read(session: AsyncSession, now: datetime) -> Figures:
    """All figures, in one transaction."""
    seconds = _seconds_between(AttemptRow.started_at, AttemptRow.ended_at)
    rows = await session.execute(
        select(AttemptRow.outcome, *_histogram(seconds))
        .where(AttemptRow.status == "ended", AttemptRow.started_at.is_not(None))
        .group_by(AttemptRow.outcome)
    )
    lasted = {outcome: _read_histogram(row) for outcome, *row in rows}
    waited = _seconds_between(AttemptRow.created_at, AttemptRow.started_at)
    picked_up = (await session.execute(select(*_histogram(waited)).where(AttemptRow.started_at.is_not(None)))).one()
    is_due = and_(AttemptRow.status == "queued", or_(AttemptRow.due_at.is_(None), AttemptRow.due_at <= now))
    since = func.coalesce(AttemptRow.due_at, AttemptRow.created_at, type_=AttemptRow.created_at.type)
    due, oldest = (await session.execute(select(func.count(), func.min(since)).where(is_due))).one()
    is_held = AttemptRow.lease_expires_at > now
    held, expired, claims, untold = (
        await session.execute(
            select(
                _count(and_(AttemptRow.status == "running", is_held)),
                _count(and_(AttemptRow.status == "running", ~is_held)),
                func.coalesce(func.sum(AttemptRow.lease_token), 0),
                _count(and_(AttemptRow.status == "ended", AttemptRow.told.is_(False))),
            )
        )
    ).one()
    meters = await session.execute(select(MeterRow.name, MeterRow.label, MeterRow.detail, MeterRow.value))
    return Figures(
        deliveries=await _by(session, DeliveryRow.decision),
        created=await _by(session, AttemptRow.trigger),
        ended=await _by(session, AttemptRow.outcome, AttemptRow.status == "ended"),
        lasted=lasted,
        picked_up=_read_histogram(picked_up),
        claims=int(claims),
        standing=await _by(session, AttemptRow.status),
        due=due,
        oldest_due=max(0.0, (now - oldest).total_seconds()) if oldest is not None else 0.0,
        leases={"held": int(held), "expired": int(expired)},
        unreported=int(untold),
        pulls=await _by(session, PullRequestRow.state),
        meters={(name, label, detail): value for name, label, detail, value in meters},
    )


async def _by(session: AsyncSession, column: Any, *where: ColumnElement[bool]) -> dict[str, int]:
    rows = await session.execute(select(column, func.count()).where(*where).group_by(column))
    return {str(value): number for value, number in rows}


def _count(condition: ColumnElement[bool]) -> ColumnElement[int]:
    return func.coalesce(func.sum(case((condition, 1), else_=0)), 0)


def _histogram(seconds: ColumnElement[float]) -> list[ColumnElement[Any]]:
    return [*(_count(seconds <= bound) for bound in BOUNDS), func.count(), func.coalesce(func.sum(seconds), 0.0)]


def _read_histogram(row: Any) -> Histogram:
    *buckets, number, total = row
    return Histogram(tuple(int(bucket) for bucket in buckets), int(number), max(0.0, float(total)))


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
    """The counters that an event increments, and by how much. Pure."""
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
