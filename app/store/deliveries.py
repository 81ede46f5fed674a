"""What a webhook's decision changes in the tables, inside one transaction of the caller.

Two processes may do the same at the same time: a unique constraint then refuses one, whose transaction is run again.
"""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import datetime

from sqlalchemy import ColumnElement, and_, select
from sqlalchemy.ext.asyncio import AsyncSession

from agent.outcome import Outcome
from app.store import endings
from app.store.models import AttemptRow, DeliveryRow, InstallationRow, PullRequestRow, RepositoryRow, RequestRow
from webhooks.intake import (
    Decision,
    Delivery,
    Ignored,
    InstallationChange,
    PullRequestChange,
    RepairRequest,
    RepositoryRef,
    Taken,
)

_INSTALLATION_STATES = {"deleted": "removed", "suspend": "suspended"}


async def take(session: AsyncSession, delivery: Delivery, decision: Decision, now: datetime) -> Taken:
    """Note the delivery and do what was decided. Raises `IntegrityError` when another one was faster somewhere."""
    known = await session.get(DeliveryRow, delivery.guid)
    if known is not None:
        return Taken(duplicate=True, attempt_id=known.attempt_id)
    attempt_id: str | None = None
    match decision:
        case RepairRequest():
            attempt_id = await _request(session, decision, now)
        case InstallationChange():
            await _installation(session, decision, now)
        case PullRequestChange():
            await _pull_request(session, decision, now)
        case Ignored():
            pass
    word, reason = _told(decision)
    session.add(
        DeliveryRow(
            guid=delivery.guid,
            event=delivery.event,
            action=delivery.action,
            payload_sha256=delivery.payload_sha256,
            decision=word,
            reason=reason,
            attempt_id=attempt_id,
            received_at=now,
        )
    )
    return Taken(duplicate=False, attempt_id=attempt_id)


def _told(decision: Decision) -> tuple[str, str]:
    match decision:
        case RepairRequest():
            return "request", decision.title
        case Ignored():
            return ("refused" if decision.refused else "ignored"), decision.reason
        case InstallationChange() | PullRequestChange():
            return "change", decision.action


async def _request(session: AsyncSession, request: RepairRequest, now: datetime) -> str:
    """The attempt that does what was asked: the head's automatic one, or a new one for a command."""
    await _know(session, request.installation_id, request.repository, now)
    here = select(AttemptRow).where(AttemptRow.repository_id == request.repository.id)
    if request.by_command:
        # The GUID is not signed: a comment that is delivered under another one is still the same command.
        same = here.join(AttemptRow.requests).where(RequestRow.comment_id == request.comment_id)
        row = await session.scalar(same.limit(1))
        if row is not None:
            return row.id
    else:
        row = await session.scalar(here.where(AttemptRow.automatic_sha == request.head_sha))
    if row is None:
        sha = request.head_sha
        row = AttemptRow(
            id=uuid.uuid4().hex,
            repository_id=request.repository.id,
            installation_id=request.installation_id,
            trigger="command" if request.by_command else "automatic",
            head_sha=sha,
            head_branch=request.head_branch,
            automatic_sha=None if request.by_command else sha,
            number=await endings.next_number(session, request.repository.id, sha) if sha else None,
            status="queued",
            created_at=now,
        )
        session.add(row)
        await session.flush()
    session.add(
        RequestRow(
            attempt_id=row.id,
            source=request.source,
            run_id=request.run_id,
            check_run_id=request.check_run_id,
            check_suite_id=request.check_suite_id,
            pull_number=request.pull_number,
            comment_id=request.comment_id,
            sender=request.sender,
            title=request.title,
            flaky=request.flaky,
            created_at=now,
        )
    )
    return row.id


async def _installation(session: AsyncSession, change: InstallationChange, now: datetime) -> None:
    row = await _install(session, change.installation_id, now)
    row.updated_at = now
    row.account = change.account
    row.state = _INSTALLATION_STATES.get(change.action, "active")
    if change.permissions:
        row.permissions = dict(change.permissions)
    for repository in change.added:
        known = await session.get(RepositoryRow, repository.id)
        # These events do not tell the default branch: what another one told stays.
        branch = known.default_branch if known is not None else repository.default_branch
        await _know(session, change.installation_id, replace(repository, default_branch=branch), now)
    if row.state != "active":
        why = "was removed from this account" if row.state == "removed" else "is suspended on this account"
        await _cancel(session, AttemptRow.installation_id == row.id, Outcome.CANCELLED, f"Selfheal {why}.", now)
    gone = [repository.id for repository in change.removed]
    for left in await session.scalars(select(RepositoryRow).where(RepositoryRow.id.in_(gone))):
        left.removed = True
        left.updated_at = now
    why = "Selfheal was removed from this repository."
    await _cancel(session, AttemptRow.repository_id.in_(gone), Outcome.CANCELLED, why, now)


async def _pull_request(session: AsyncSession, change: PullRequestChange, now: datetime) -> None:
    """A pull request of ours takes its new state; attempts on a head that it left behind are not worth finishing."""
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
        endings.cancel(session, row, outcome, reason, now)


async def _install(session: AsyncSession, installation_id: int, now: datetime) -> InstallationRow:
    row = await session.get(InstallationRow, installation_id)
    if row is None:
        row = InstallationRow(id=installation_id, updated_at=now)
        session.add(row)
        await session.flush()
    return row


async def _know(session: AsyncSession, installation_id: int, repository: RepositoryRef, now: datetime) -> None:
    """Note the repository as GitHub names it today. An installation that sends events is installed."""
    await _install(session, installation_id, now)
    row = await session.get(RepositoryRow, repository.id)
    if row is None:
        row = RepositoryRow(id=repository.id, updated_at=now)
        session.add(row)
    row.installation_id = installation_id
    row.full_name, row.default_branch, row.private = repository.full_name, repository.default_branch, repository.private
    row.removed = False
    if session.is_modified(row):  # else every delivery would wait for the row's lock
        row.updated_at = now
    await session.flush()
