"""Records the frequent decisions (failing runs, ignored events): many deliveries in few statements, in one transaction.

All other decisions are recorded one at a time (`deliveries`), with the rows built here.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, bindparam, insert, select

from app.store.deliveries.repositories import NamedRepository, record_repositories
from app.store.models import AttemptRow, DeliveryRow, RequestRow
from webhooks.intake import Decision, Delivery, Ignored, InstallationChange, PullRequestChange, Receipt, RepairRequest

BatchItem = tuple[Delivery, RepairRequest | Ignored]
"""Requests are automatic ones here: their head is known."""

_Head = tuple[int, str]  # repository, commit

# Built once: SQLAlchemy caches what it compiles with the statement.
_DELIVERIES = select(DeliveryRow.guid, DeliveryRow.attempt_id).where(DeliveryRow.guid.in_(bindparam("guids", expanding=True)))
_ATTEMPTS = select(
    AttemptRow.repository_id, AttemptRow.head_sha, AttemptRow.automatic_sha, AttemptRow.number, AttemptRow.id
).where(
    AttemptRow.repository_id.in_(bindparam("repositories", expanding=True)),
    AttemptRow.head_sha.in_(bindparam("shas", expanding=True)),
)


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
        deliveries.append(delivery_row(delivery, decision, attempt_id, now))
        attempt_of[delivery.guid] = attempt_id  # the batch may hold the same delivery twice
        receipts.append(Receipt(duplicate=False, attempt_id=attempt_id))
    if requests:
        connection.execute(insert(RequestRow), requests)
    if deliveries:
        connection.execute(insert(DeliveryRow), deliveries)
    return receipts


def _attempts(connection: Connection, requests: Sequence[RepairRequest], now: datetime) -> dict[_Head, str]:
    """The automatic attempt of each head; created where there is none."""
    if not requests:
        return {}
    record_repositories(
        connection,
        {request.repository.id: NamedRepository(request.installation_id, request.repository) for request in requests},
        now,
    )
    heads = {_head(request): request for request in reversed(requests)}  # the first request of each
    repositories, shas = ({head[part] for head in heads} for part in (0, 1))
    automatic: dict[_Head, str] = {}
    numbers: dict[_Head, int] = {}
    for repository_id, sha, automatic_sha, number, attempt_id in connection.execute(
        _ATTEMPTS, {"repositories": list(repositories), "shas": list(shas)}
    ):
        head = repository_id, sha
        numbers[head] = max(numbers.get(head, 0), number or 0)
        if automatic_sha is not None:
            automatic[head] = attempt_id
    created = {
        head: attempt_row(request, numbers.get(head, 0) + 1, now) for head, request in heads.items() if head not in automatic
    }
    if created:
        connection.execute(insert(AttemptRow), list(created.values()))
    return automatic | {head: row["id"] for head, row in created.items()}


def _head(request: RepairRequest) -> _Head:
    assert request.head_sha is not None, "only comments lack it"
    return request.repository.id, request.head_sha


def attempt_row(request: RepairRequest, number: int | None, now: datetime) -> dict[str, Any]:
    """The row of a new attempt; `number` counts the attempts of its head, if that is known."""
    return {
        "id": _new_id(now),
        "repository_id": request.repository.id,
        "installation_id": request.installation_id,
        "trigger": "command" if request.by_command else "automatic",
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


def request_row(request: RepairRequest, attempt_id: str, now: datetime) -> dict[str, Any]:
    """The row of a request for an attempt."""
    return {
        "attempt_id": attempt_id,
        "source": request.source,
        "run_id": request.run_id,
        "check_run_id": request.check_run_id,
        "check_suite_id": request.check_suite_id,
        "pull_number": request.pull_number,
        "comment_id": request.comment_id,
        "sender": request.sender,
        "title": request.title,
        "flaky": request.flaky,
        "created_at": now,
    }


def delivery_row(delivery: Delivery, decision: Decision, attempt_id: str | None, now: datetime) -> dict[str, Any]:
    """The row of a delivery, which keeps it from being handled twice."""
    kind, reason = _kind_and_reason(decision)
    return {
        "guid": delivery.guid,
        "event": delivery.event,
        "action": delivery.action,
        "payload_sha256": delivery.payload_sha256,
        "decision": kind,
        "reason": reason,
        "attempt_id": attempt_id,
        "received_at": now,
    }


def _kind_and_reason(decision: Decision) -> tuple[str, str]:
    match decision:
        case RepairRequest():
            return "request", decision.title
        case Ignored():
            return ("refused" if decision.refused else "ignored"), decision.reason
        case InstallationChange() | PullRequestChange():
            return "change", decision.action
