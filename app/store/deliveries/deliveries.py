"""Records a webhook's decision in the tables, inside the caller's transaction.

Two processes may do the same at the same time: a unique constraint then refuses one, whose transaction is run again. The
frequent decisions (failing runs, ignored events) are recorded by `batches`.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from sqlalchemy import ColumnElement, and_, select
from sqlalchemy.ext.asyncio import AsyncSession

from agent.contract.outcome import Outcome
from app.store.deliveries import batches
from app.store.deliveries.repositories import find_or_create_installation, record_repository
from app.store.leases import changes
from app.store.models import AttemptRow, DeliveryRow, PullRequestRow, RepositoryRow, RequestRow
from webhooks.intake import (
    Decision,
    Delivery,
    Ignored,
    InstallationChange,
    PullRequestChange,
    Receipt,
    RepairRequest,
)

_INSTALLATION_STATES = {"deleted": "removed", "suspend": "suspended"}


async def record(session: AsyncSession, delivery: Delivery, decision: Decision, now: datetime) -> Receipt:
    """Record the delivery and its decision. Raises `IntegrityError` if another process was faster."""
    match decision:
        case RepairRequest(source="comment") | InstallationChange() | PullRequestChange():
            return await _one(session, delivery, decision, now)
        case RepairRequest() | Ignored():
            connection = await session.connection()
            return (await connection.run_sync(batches.record_batch, [(delivery, decision)], now))[0]


async def _one(
    session: AsyncSession, delivery: Delivery, decision: RepairRequest | InstallationChange | PullRequestChange, now: datetime
) -> Receipt:
    known = await session.get(DeliveryRow, delivery.guid)
    if known is not None:
        return Receipt(duplicate=True, attempt_id=known.attempt_id)
    attempt_id: str | None = None
    match decision:
        case RepairRequest():
            attempt_id = await _command(session, decision, now)
        case InstallationChange():
            await _installation(session, decision, now)
        case PullRequestChange():
            await _pull_request(session, decision, now)
    session.add(DeliveryRow(**batches.delivery_row(delivery, decision, attempt_id, now)))
    return Receipt(duplicate=False, attempt_id=attempt_id)


async def _command(session: AsyncSession, request: RepairRequest, now: datetime) -> str:
    """The id of the attempt that a comment asks for."""
    await record_repository(session, request.installation_id, request.repository, now)
    # The GUID is not signed: a comment delivered under another GUID is still the same command.
    known: str | None = await session.scalar(
        select(RequestRow.attempt_id).where(RequestRow.comment_id == request.comment_id).limit(1)
    )
    if known is not None:
        return known
    sha = request.head_sha
    number = await changes.next_number(session, request.repository.id, sha) if sha else None
    row = AttemptRow(**batches.attempt_row(request, number, now))
    session.add(row)
    await session.flush()
    session.add(RequestRow(**batches.request_row(request, row.id, now)))
    return row.id


async def _installation(session: AsyncSession, change: InstallationChange, now: datetime) -> None:
    row = await find_or_create_installation(session, change.installation_id, now)
    row.updated_at = now
    row.account = change.account
    row.state = _INSTALLATION_STATES.get(change.action, "active")
    if change.permissions:
        row.permissions = dict(change.permissions)
    for repository in change.added:
        known = await session.get(RepositoryRow, repository.id)
        # These events do not name the default branch: keep the known one.
        branch = known.default_branch if known is not None else repository.default_branch
        await record_repository(session, change.installation_id, replace(repository, default_branch=branch), now)
    if row.state != "active":
        why = "was removed from this account" if row.state == "removed" else "is suspended on this account"
        await _cancel(session, AttemptRow.installation_id == row.id, Outcome.CANCELLED, f"Selfheal {why}.", now)
    gone = [repository.id for repository in change.removed]
    leaving = select(RepositoryRow).where(RepositoryRow.id.in_(gone)).execution_options(populate_existing=True)
    for left in await session.scalars(leaving):
        left.removed = True
        left.updated_at = now
    why = "Selfheal was removed from this repository."
    await _cancel(session, AttemptRow.repository_id.in_(gone), Outcome.CANCELLED, why, now)


async def _pull_request(session: AsyncSession, change: PullRequestChange, now: datetime) -> None:
    """Update the state of our pull request; cancel attempts on a head that is no longer current."""
    ours = await session.scalar(
        select(PullRequestRow).where(
            PullRequestRow.repository_id == change.repository.id, PullRequestRow.number == change.number
        )
    )
    if ours is not None:
        ours.state = "merged" if change.merged else "closed" if change.closed else "open"
    on_branch = and_(AttemptRow.repository_id == change.repository.id, AttemptRow.head_branch == change.head_branch)
    if change.before is not None:
        moved = and_(on_branch, AttemptRow.head_sha == change.before)
        why = f"A newer commit was pushed to {change.head_branch}: {change.head_sha[:12]}."
        await _cancel(session, moved, Outcome.SUPERSEDED, why, now)
    elif change.closed and change.head_branch != change.repository.default_branch:
        closed = and_(on_branch, AttemptRow.head_sha == change.head_sha)
        how = "merged" if change.merged else "closed"
        await _cancel(session, closed, Outcome.CANCELLED, f"Pull request #{change.number} was {how}.", now)


async def _cancel(session: AsyncSession, which: ColumnElement[bool], outcome: Outcome, reason: str, now: datetime) -> None:
    rows = await session.scalars(select(AttemptRow).where(which, AttemptRow.status != "ended").with_for_update())
    for row in rows.all():
        await changes.cancel(session, row, outcome, reason, now)
