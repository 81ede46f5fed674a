"""Quotas: how many attempts, tokens and dollars a repository, a person and everybody together may use per day (UTC).

An attempt counts on the day when it is admitted. While it runs, it counts with what it may spend at most, then with what it
spent. So attempts that run at the same time do not exceed a quota together. `lock` makes workers count one after another.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from math import inf

from sqlalchemy import ColumnElement, and_, case, func, literal, or_, select, text
from sqlalchemy.ext.asyncio import AsyncSession

from app.store.models import AttemptRow, RepositoryRow

_LOCK = 0x5E1F_90A5  # any number, the same in every process; not that of the migrations


@dataclass(frozen=True, slots=True)
class Limit:
    """The most of one thing, and the name of what raises it."""

    most: float = inf
    raised_by: str = ""

    def narrowed(self, most: float | None, by: str) -> Limit:
        return Limit(most, by) if most is not None and most < self.most else self


@dataclass(frozen=True, slots=True)
class Quota:
    """Limits per day."""

    attempts: Limit = Limit()
    tokens: Limit = Limit()
    cost: Limit = Limit()  # US dollars


@dataclass(frozen=True, slots=True)
class Quotas:
    repository: Quota = Quota()
    person: Quota = Quota()
    everybody: Quota = Quota()


@dataclass(frozen=True, slots=True)
class Allowance:
    """What one attempt may spend at most."""

    tokens: float
    cost: float  # US dollars


@dataclass(frozen=True, slots=True)
class Use:
    """What somebody has used of a quota today."""

    whose: str
    quota: Quota
    attempts: int
    tokens: int
    cost: float


NO_QUOTAS = Quotas()
UNLIMITED = Allowance(inf, inf)


async def lock(session: AsyncSession) -> None:
    """Let no other transaction count until this one ends. Take it before the locks of rows.

    On SQLite, a transaction that writes is alone already.
    """
    if session.get_bind().dialect.name == "postgresql":
        await session.execute(text("SELECT pg_advisory_xact_lock(:lock)").bindparams(lock=_LOCK))


async def admit(session: AsyncSession, row: AttemptRow, quotas: Quotas, now: datetime) -> str | None:
    """Count the attempt from now on, unless it is counted already; returns a sentence if a quota is used up."""
    left = await _left(session, row, quotas, now)
    if isinstance(left, str):
        return left
    row.admitted_at = row.admitted_at or now
    return None


async def reserve(session: AsyncSession, row: AttemptRow, quotas: Quotas, most: Allowance, now: datetime) -> Allowance | str:
    """Admit the attempt and reserve what it may spend in all its tries: `most`, or what is left of the quotas.

    A sentence if nothing is left. An attempt that has called a model may then end without a further call.
    """
    left = await _left(session, row, quotas, now)
    if isinstance(left, str):
        if not row.calls:
            return left
        left = Allowance(0, 0.0)
    row.admitted_at = row.admitted_at or now
    allowed = Allowance(min(most.tokens, left.tokens), min(most.cost, left.cost))
    # Without a limit for one attempt, a reservation would leave nothing to the others.
    row.tokens_reserved = 0 if most.tokens == inf else int(allowed.tokens)
    row.cost_reserved = 0.0 if most.cost == inf else allowed.cost
    return allowed


async def _left(session: AsyncSession, row: AttemptRow, quotas: Quotas, now: datetime) -> Allowance | str:
    """What the other attempts of the day leave; a sentence if they leave nothing."""
    day = (row.admitted_at or now).replace(hour=0, minute=0, second=0, microsecond=0)
    left = UNLIMITED
    for whose, which, quota in _scopes(row, quotas):
        if quota == Quota():
            continue
        attempts, tokens, cost = await _used(session, row, day, which)
        for limit, used, what in (
            (quota.attempts, attempts, f"{quota.attempts.most:.0f} attempt{'' if quota.attempts.most == 1 else 's'}"),
            (quota.tokens, tokens, f"{quota.tokens.most:.0f} model tokens"),
            (quota.cost, cost, f"${quota.cost.most:.2f}"),
        ):
            if used >= limit.most:
                until = day + timedelta(days=1)
                used_up = f"The quota of {what} {whose} is used up until {until:%Y-%m-%d %H:%M} UTC."
                return f"{used_up} It is set by {limit.raised_by}."
        left = replace(left, tokens=min(left.tokens, quota.tokens.most - tokens), cost=min(left.cost, quota.cost.most - cost))
    return left


def _scopes(row: AttemptRow, quotas: Quotas) -> Iterator[tuple[str, tuple[ColumnElement[bool], ...], Quota]]:
    yield "per repository and day", (AttemptRow.repository_id == row.repository_id,), quotas.repository
    if row.person is not None:
        yield "per person and day", (AttemptRow.person == row.person,), quotas.person
    yield "per day", (), quotas.everybody


async def _used(
    session: AsyncSession, row: AttemptRow, day: datetime, which: tuple[ColumnElement[bool], ...]
) -> tuple[int, int, float]:
    """Attempts before this one, tokens and dollars of all others on that day."""
    is_before: ColumnElement[bool] = AttemptRow.id != row.id
    if row.admitted_at is not None:
        at_once = and_(AttemptRow.admitted_at == row.admitted_at, AttemptRow.id < row.id)
        is_before = or_(AttemptRow.admitted_at < row.admitted_at, at_once)
    totals = select(*_totals(case((is_before, 1), else_=0))).where(_is_of(day), AttemptRow.id != row.id, *which)
    attempts, tokens, dollars = (await session.execute(totals)).one()
    return int(attempts), int(tokens), float(dollars)


def _is_of(day: datetime) -> ColumnElement[bool]:
    return and_(AttemptRow.admitted_at >= day, AttemptRow.admitted_at < day + timedelta(days=1))


def _totals(counted: ColumnElement[int]) -> tuple[ColumnElement[int], ColumnElement[int], ColumnElement[float]]:
    """Attempts, tokens and dollars, of running attempts what they reserved."""
    spent, cost = AttemptRow.tokens_in + AttemptRow.tokens_out, func.coalesce(AttemptRow.cost, 0.0)
    tokens_reserved, cost_reserved = func.coalesce(AttemptRow.tokens_reserved, 0), func.coalesce(AttemptRow.cost_reserved, 0.0)
    return (
        func.coalesce(func.sum(counted), 0),
        func.coalesce(func.sum(case((spent > tokens_reserved, spent), else_=tokens_reserved)), 0),
        func.coalesce(func.sum(case((cost > cost_reserved, cost), else_=cost_reserved)), 0.0),
    )


async def used_today(session: AsyncSession, quotas: Quotas, now: datetime) -> list[Use]:
    """Everybody's use, and that of the repository and of the person with the most attempts, of the operator's quotas."""
    day = now.replace(hour=0, minute=0, second=0, microsecond=0)
    totals = _totals(literal(1))
    by_all = select(literal("all repositories"), *totals)
    by_repository = select(RepositoryRow.full_name, *totals).join(RepositoryRow, RepositoryRow.id == AttemptRow.repository_id)
    by_person = select(AttemptRow.person, *totals).where(AttemptRow.person.is_not(None))
    uses = []
    for quota, query in (
        (quotas.everybody, by_all),
        (quotas.repository, by_repository.group_by(RepositoryRow.full_name)),
        (quotas.person, by_person.group_by(AttemptRow.person)),
    ):
        found = (await session.execute(query.where(_is_of(day)).order_by(totals[0].desc()).limit(1))).first()
        if found is not None and quota != Quota():
            whose, attempts, tokens, cost = found
            uses.append(Use(whose, quota, int(attempts), int(tokens), float(cost)))
    return uses
