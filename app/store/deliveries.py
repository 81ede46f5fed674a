"""Records what was decided about a webhook, inside the caller's transaction.

If two processes do the same at the same time, a unique constraint rejects one, whose transaction is run again. The frequent
decisions (failing runs, ignored events) are recorded in batches: many deliveries in few statements.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

import structlog
from sqlalchemy import ColumnElement, Connection, and_, bindparam, insert, or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from agent.contract.outcome import Outcome
from app.store.leases import changes
from app.store.models import AttemptRow, CommandRow, DeliveryRow, InstallationRow, PullRequestRow, RepositoryRow, RequestRow
from app.store.text import storable
from app.store.values import request_row
from webhooks.intake import (
    Decision,
    Delivery,
    Ignored,
    InstallationChange,
    PullRequestChange,
    Receipt,
    RepairRequest,
    RepositoryRef,
)

log = structlog.get_logger(__name__)

_INSTALLATION_STATES = {"deleted": "removed", "suspend": "suspended"}

BatchItem = tuple[Delivery, RepairRequest | Ignored]
"""The requests in a batch are automatic ones, whose head is known."""

_COMMAND_FIELDS = ("installation_id", "pull_number", "comment_id", "sender", "title", "flaky")

_Head = tuple[int, str]  # repository, commit

# Built once: SQLAlchemy caches the compiled SQL with the statement.
_DELIVERIES = select(DeliveryRow.guid, DeliveryRow.attempt_id).where(DeliveryRow.guid.in_(bindparam("guids", expanding=True)))
_ATTEMPTS = (
    select(
        AttemptRow.repository_id,
        AttemptRow.head_sha,
        AttemptRow.automatic_sha,
        AttemptRow.head_branch,
        AttemptRow.number,
        AttemptRow.id,
        # It may miss what fails from now on. After an answer, it continues with the failures that it asked about.
        or_(
            AttemptRow.status.in_(("waiting", "ended")),
            AttemptRow.answered_at.is_not(None),
            and_(AttemptRow.status == "running", AttemptRow.gathered_at.is_not(None)),
        ),
    )
    .where(
        AttemptRow.repository_id.in_(bindparam("repositories", expanding=True)),
        AttemptRow.head_sha.in_(bindparam("shas", expanding=True)),
    )
    .with_for_update(read=True)  # its worker must not stop looking for failures before this one is stored
)
_SEEN = (
    select(
        AttemptRow.repository_id,
        AttemptRow.head_sha,
        RequestRow.run_id,
        RequestRow.run_attempt,
        RequestRow.workflow_id,
        # It ended because of a closed pull request or a deleted branch, which can come back, not by what a person answered.
        and_(AttemptRow.outcome.in_(("cancelled", "superseded")), AttemptRow.answered_at.is_(None)),
        RequestRow.source,
        RequestRow.title,
    )
    .join(RequestRow, RequestRow.attempt_id == AttemptRow.id)
    .where(
        AttemptRow.repository_id.in_(bindparam("repositories", expanding=True)),
        AttemptRow.head_sha.in_(bindparam("shas", expanding=True)),
    )
    .distinct()
)
_MOST_ATTEMPTS = 10  # of one commit, to stop a loop; people's are limited by their quotas
_REPOSITORIES = select(RepositoryRow).where(RepositoryRow.id.in_(bindparam("ids", expanding=True)))
_INSTALLATIONS = select(InstallationRow.id).where(InstallationRow.id.in_(bindparam("ids", expanding=True)))


async def record(session: AsyncSession, delivery: Delivery, decision: Decision, now: datetime) -> Receipt:
    """Record the delivery and its decision. Raises `IntegrityError` if another process was faster."""
    match decision:
        case RepairRequest(source="comment") | InstallationChange() | PullRequestChange():
            return await _one(session, delivery, decision, now)
        case RepairRequest() | Ignored():
            connection = await session.connection()
            return (await connection.run_sync(record_batch, [(delivery, decision)], now))[0]


async def _one(
    session: AsyncSession, delivery: Delivery, decision: RepairRequest | InstallationChange | PullRequestChange, now: datetime
) -> Receipt:
    known = await session.get(DeliveryRow, delivery.guid)
    if known is not None:
        return Receipt(duplicate=True, attempt_id=known.attempt_id)
    attempt_id: str | None = None
    match decision:
        case RepairRequest():
            attempt_id = await _command(session, delivery, decision, now)
        case InstallationChange():
            await _installation(session, decision, now)
        case PullRequestChange():
            await _pull_request(session, decision, now)
    session.add(DeliveryRow(**_delivery_row(delivery, decision, attempt_id, now)))
    return Receipt(duplicate=False, attempt_id=attempt_id)


async def _command(session: AsyncSession, delivery: Delivery, request: RepairRequest, now: datetime) -> str | None:
    """Record a comment as a pending command (`app.store.commands`); returns the id of its attempt if it has one already."""
    await record_repository(session, request.installation_id, request.repository, now)
    # The GUID is not signed: a comment delivered under another GUID is still the same command.
    known: str | None = await session.scalar(
        select(RequestRow.attempt_id).where(RequestRow.comment_id == request.comment_id).limit(1)
    )
    if known is None and await session.get(CommandRow, request.comment_id) is None:
        named = {name: getattr(request, name) for name in _COMMAND_FIELDS}
        session.add(CommandRow(repository_id=request.repository.id, guid=delivery.guid, created_at=now, **named))
        await session.flush()
    return known


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
    """Update the state of our pull request; cancel attempts on a head that is no longer current.

    If it is closed, only its commands are cancelled: its branch may live on, as `develop` does, or have another one. A worker
    asks GitHub whether that was deleted, or the automatic attempt is not wanted any more.
    """
    ours = await session.scalar(
        select(PullRequestRow).where(
            PullRequestRow.repository_id == change.repository.id, PullRequestRow.number == change.number
        )
    )
    if ours is not None:
        ours.state = "merged" if change.merged else "closed" if change.closed else "open"
    here = AttemptRow.repository_id == change.repository.id
    if change.before is not None:
        moved = and_(here, AttemptRow.head_branch == change.head_branch, AttemptRow.head_sha == change.before)
        why = f"A newer commit was pushed to {change.head_branch}: `{change.head_sha[:12]}`."
        await _cancel(session, moved, Outcome.SUPERSEDED, why, now)
    elif change.closed:
        commanded = and_(here, AttemptRow.requests.any(RequestRow.pull_number == change.number))
        how = "merged" if change.merged else "closed"
        await _cancel(session, commanded, Outcome.CANCELLED, f"Pull request #{change.number} was {how}.", now)


async def _cancel(session: AsyncSession, which: ColumnElement[bool], outcome: Outcome, reason: str, now: datetime) -> None:
    rows = await session.scalars(select(AttemptRow).where(which, AttemptRow.status != "ended").with_for_update())
    for row in rows.all():
        await changes.cancel(session, row, outcome, reason, now)


async def find_or_create_installation(session: AsyncSession, installation_id: int, now: datetime) -> InstallationRow:
    """The installation's row, created if it is new."""
    row = await session.get(InstallationRow, installation_id)
    if row is None:
        row = InstallationRow(id=installation_id, updated_at=now)
        session.add(row)
        await session.flush()
    return row


async def record_repository(session: AsyncSession, installation_id: int, repository: RepositoryRef, now: datetime) -> None:
    """Record the repository under its current name. An installation that sends events counts as installed."""
    connection = await session.connection()
    await connection.run_sync(record_repositories, {repository.id: (installation_id, repository)}, now)


def record_repositories(connection: Connection, named: Mapping[int, tuple[int, RepositoryRef]], now: datetime) -> None:
    """Like `record_repository`, for many installations and repositories; `named` is keyed by repository id.

    Writes only changes, because writing locks the rows.
    """
    known = {row.id: row for row in connection.execute(_REPOSITORIES, {"ids": list(named)})}
    rows = [{**asdict(repository), "installation_id": owner, "removed": False} for owner, repository in named.values()]
    new = [{**row, "updated_at": now, "known_at": now} for row in rows if row["id"] not in known]
    changed = [row for row in rows if row["id"] in known and not row.items() <= known[row["id"]]._asdict().items()]
    if not new and not changed:
        return
    installations = {row["installation_id"] for row in (*new, *changed)}
    missing = installations - set(connection.scalars(_INSTALLATIONS, {"ids": list(installations)}))
    if missing:
        connection.execute(insert(InstallationRow), [{"id": id_, "updated_at": now} for id_ in missing])
    if new:
        connection.execute(insert(RepositoryRow), new)
    for row in changed:
        if known[row["id"]].removed:  # it was added once more
            row |= {"known_at": now, "suites_stopped_at": None}
        connection.execute(update(RepositoryRow).where(RepositoryRow.id == row["id"]).values(**row, updated_at=now))


def record_batch(connection: Connection, batch: Sequence[BatchItem], now: datetime) -> list[Receipt]:
    """Record the deliveries as if one by one, in order. Raises `IntegrityError` if another process was faster."""
    rows = connection.execute(_DELIVERIES, {"guids": [delivery.guid for delivery, _ in batch]})
    attempt_of: dict[str, str | None] = {row.guid: row.attempt_id for row in rows}
    fresh = [(delivery, decision) for delivery, decision in batch if delivery.guid not in attempt_of]
    attempts = _attempts(connection, [decision for _, decision in fresh if isinstance(decision, RepairRequest)], now)
    receipts, requests, deliveries = [], [], []
    for delivery, decision in batch:
        if delivery.guid in attempt_of:
            receipts.append(Receipt(duplicate=True, attempt_id=attempt_of[delivery.guid]))
            continue
        attempt_id = None
        if isinstance(decision, RepairRequest):
            attempt_id = attempts[_head(decision)]
            requests.append(request_row(decision, attempt_id, now))
        deliveries.append(_delivery_row(delivery, decision, attempt_id, now))
        attempt_of[delivery.guid] = attempt_id  # the batch may hold the same delivery twice
        receipts.append(Receipt(duplicate=False, attempt_id=attempt_id))
    if requests:
        connection.execute(insert(RequestRow), requests)
    if deliveries:
        connection.execute(insert(DeliveryRow), deliveries)
    return receipts


def _attempts(connection: Connection, requests: Sequence[RepairRequest], now: datetime) -> dict[_Head, str]:
    """The automatic attempt of each head, created if there is none."""
    if not requests:
        return {}
    record_repositories(
        connection,
        {request.repository.id: (request.installation_id, request.repository) for request in requests},
        now,
    )
    heads = {_head(request): request for request in reversed(requests)}  # the first request of each
    repositories, shas = ({head[part] for head in heads} for part in (0, 1))
    automatic: dict[_Head, str] = {}
    branches: dict[_Head, str | None] = {}
    numbers: dict[_Head, int] = {}
    closed: set[_Head] = set()
    for repository_id, sha, automatic_sha, branch, number, attempt_id, is_closed in connection.execute(
        _ATTEMPTS, {"repositories": list(repositories), "shas": list(shas)}
    ):
        head = repository_id, sha
        branches[head] = branch
        numbers[head] = max(numbers.get(head, 0), number or 0)
        if automatic_sha is not None:
            automatic[head] = attempt_id
            if is_closed:
                closed.add(head)
    for head, request in _unseen(connection, [request for request in requests if _head(request) in closed]).items():
        if request.by_person or numbers[head] < _MOST_ATTEMPTS:
            earlier = automatic.pop(head)
            connection.execute(update(AttemptRow).where(AttemptRow.id == earlier).values(automatic_sha=None))
            heads[head] = request
        else:
            log.warning(
                "failure starts no attempt: its commit has had the most already",
                attempt=automatic[head],
                repository=request.repository.full_name,
                commit=request.head_sha,
                title=request.title,
                most=_MOST_ATTEMPTS,
            )
    created = {
        head: attempt_row(_with_branch(request, branches.get(head)), numbers.get(head, 0) + 1, now)
        for head, request in heads.items()
        if head not in automatic
    }
    if created:
        connection.execute(insert(AttemptRow), list(created.values()))
    return automatic | {head: row["id"] for head, row in created.items()}


def _with_branch(request: RepairRequest, known: str | None) -> RepairRequest:
    """The request with a branch. If no attempt knows it, the worker tells whether the default branch has the commit."""
    return replace(request, head_branch=request.head_branch or known or request.repository.default_branch)


def _unseen(connection: Connection, requests: Sequence[RepairRequest]) -> dict[_Head, RepairRequest]:
    """The first request of each head that is news: of a workflow, or another service's check or status, that no attempt knows.

    A re-run is news too, but not a further run, such as a label starts. Other services are read only where no workflow failed,
    so after a workflow's failure theirs are no news.
    """
    news = [request for request in requests if request.is_news]
    if not news:
        return {}
    repositories, shas = ({_head(request)[part] for request in news} for part in (0, 1))
    runs: set[tuple[Any, ...]] = set()
    workflows: set[tuple[int, str, int | None]] = set()
    others: set[tuple[Any, ...]] = set()
    rows = connection.execute(_SEEN, {"repositories": list(repositories), "shas": list(shas)})
    for repository_id, sha, run_id, run_attempt, workflow_id, is_unexamined, source, title in rows:
        if run_id is not None:
            runs |= {(repository_id, sha), (repository_id, sha, run_id, run_attempt)}
            if not is_unexamined:
                workflows.add((repository_id, sha, workflow_id))
        others.add((repository_id, sha, source, title))

    def is_unseen(request: RepairRequest) -> bool:
        head = _head(request)
        if request.run_id is not None:
            is_again = (
                request.run_attempt == 1 and request.workflow_id is not None and (*head, request.workflow_id) in workflows
            )
            return not is_again and (*head, request.run_id, request.run_attempt) not in runs
        return request.by_person or (head not in runs and (*head, request.source, storable(request.title)) not in others)

    return {_head(request): request for request in reversed(news) if is_unseen(request)}


def _head(request: RepairRequest) -> _Head:
    assert request.head_sha is not None, "only comments lack it"
    return request.repository.id, request.head_sha


def attempt_row(request: RepairRequest, number: int | None, now: datetime) -> dict[str, Any]:
    """The row of a new attempt; `number` is its number among its head's attempts, if the head is known."""
    return {
        "id": _new_id(now),
        "repository_id": request.repository.id,
        "installation_id": request.installation_id,
        "trigger": "command" if request.by_command else "automatic",
        "person": (request.sender or "").lower() or None if request.by_person else None,
        "head_sha": request.head_sha,
        "head_branch": request.head_branch,
        "automatic_sha": None if request.by_command else request.head_sha,
        "number": number,
        "status": "queued",
        "created_at": now,
    }


def _new_id(now: datetime) -> str:
    """32 hexadecimal digits: the time in steps of 4 ms (wrapping after half a year) and 96 random bits.

    As with ULIDs, the time keeps the ids of one transaction together in the indexes, which saves writing pages.
    """
    return f"{int(now.timestamp() * 256) % 2**32:08x}{secrets.token_hex(12)}"


def _delivery_row(delivery: Delivery, decision: Decision, attempt_id: str | None, now: datetime) -> dict[str, Any]:
    match decision:
        case RepairRequest():
            kind, reason = "request", decision.title
        case Ignored():
            kind, reason = ("refused" if decision.refused else "ignored"), decision.reason
        case InstallationChange() | PullRequestChange():
            kind, reason = "change", decision.action
    return {**asdict(delivery), "decision": kind, "reason": reason, "attempt_id": attempt_id, "received_at": now}
