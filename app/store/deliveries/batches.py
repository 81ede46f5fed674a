"""What comes in masses, failing runs and what is ignored: many deliveries in few statements, in one transaction of the caller.

Every other decision is taken one at a time (`deliveries`), with the rows that are made here.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, bindparam, select

from app.store.deliveries.repositories import Named, know_all
from app.store.masses import insert_all
from app.store.models import AttemptRow, Base, DeliveryRow, RequestRow
from webhooks.intake import Decision, Delivery, Ignored, InstallationChange, PullRequestChange, RepairRequest, Taken

Arrival = tuple[Delivery, RepairRequest | Ignored]
"""A request here is an automatic one: its head is known."""

_Head = tuple[int, str]  # repository, commit

_ATTEMPT_ROWS, _REQUEST_ROWS, _DELIVERY_ROWS = (
    Base.metadata.tables[row.__tablename__] for row in (AttemptRow, RequestRow, DeliveryRow)
)
# Made once: what SQLAlchemy works out for a statement, it keeps with it.
_DELIVERIES = select(DeliveryRow.guid, DeliveryRow.attempt_id).where(DeliveryRow.guid.in_(bindparam("guids", expanding=True)))
_ATTEMPTS = select(
    AttemptRow.repository_id, AttemptRow.head_sha, AttemptRow.automatic_sha, AttemptRow.number, AttemptRow.id
).where(
    AttemptRow.repository_id.in_(bindparam("repositories", expanding=True)),
    AttemptRow.head_sha.in_(bindparam("shas", expanding=True)),
)


def take_all(connection: Connection, arrivals: Sequence[Arrival], now: datetime) -> list[Taken]:
    """As if each were taken alone, in order. Raises `IntegrityError` when another process was faster somewhere."""
    rows = connection.execute(_DELIVERIES, {"guids": [delivery.guid for delivery, _ in arrivals]})
    attempt_of: dict[str, str | None] = {row.guid: row.attempt_id for row in rows}
    fresh = [(delivery, decision) for delivery, decision in arrivals if delivery.guid not in attempt_of]
    attempts = _attempts(connection, [decision for _, decision in fresh if isinstance(decision, RepairRequest)], now)
    taken, requests, deliveries = [], [], []
    for delivery, decision in arrivals:
        if delivery.guid in attempt_of:
            taken.append(Taken(duplicate=True, attempt_id=attempt_of[delivery.guid]))
            continue
        attempt_id = None
        if isinstance(decision, RepairRequest):
            attempt_id = attempts[_head(decision)]
            requests.append(asked(decision, attempt_id, now))
        deliveries.append(delivered(delivery, decision, attempt_id, now))
        attempt_of[delivery.guid] = attempt_id  # the same may come twice at once
        taken.append(Taken(duplicate=False, attempt_id=attempt_id))
    if requests:
        insert_all(connection, _REQUEST_ROWS, requests)
    if deliveries:
        insert_all(connection, _DELIVERY_ROWS, deliveries)
    return taken


def _attempts(connection: Connection, requests: Sequence[RepairRequest], now: datetime) -> dict[_Head, str]:
    """The automatic attempt of each head; made where there is none."""
    if not requests:
        return {}
    know_all(
        connection, {request.repository.id: Named(request.installation_id, request.repository) for request in requests}, now
    )
    heads = {_head(request): request for request in reversed(requests)}  # the first of each
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
    made = {head: queued(request, numbers.get(head, 0) + 1, now) for head, request in heads.items() if head not in automatic}
    if made:
        insert_all(connection, _ATTEMPT_ROWS, list(made.values()))
    return automatic | {head: row["id"] for head, row in made.items()}


def _head(request: RepairRequest) -> _Head:
    assert request.head_sha is not None, "only a comment does not carry it"
    return request.repository.id, request.head_sha


def queued(request: RepairRequest, number: int | None, now: datetime) -> dict[str, Any]:
    """A new attempt's row; `number` among those of its head, where that is known."""
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
    """32 hexadecimal digits: the time in steps of 4 ms, which begin anew after half a year, and 96 random bits.

    The time is there because ids of one transaction then stand together in each of the three indexes that hold them. Anywhere
    else each id would change a page of its own, and a page costs a commit 8 us.
    """
    return f"{int(now.timestamp() * 256) % 2**32:08x}{secrets.token_hex(12)}"


def asked(request: RepairRequest, attempt_id: str, now: datetime) -> dict[str, Any]:
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


def delivered(delivery: Delivery, decision: Decision, attempt_id: str | None, now: datetime) -> dict[str, Any]:
    """The row of a delivery, which keeps it from being handled twice."""
    word, reason = _told(decision)
    return {
        "guid": delivery.guid,
        "event": delivery.event,
        "action": delivery.action,
        "payload_sha256": delivery.payload_sha256,
        "decision": word,
        "reason": reason,
        "attempt_id": attempt_id,
        "received_at": now,
    }


def _told(decision: Decision) -> tuple[str, str]:
    match decision:
        case RepairRequest():
            return "request", decision.title
        case Ignored():
            return ("refused" if decision.refused else "ignored"), decision.reason
        case InstallationChange() | PullRequestChange():
            return "change", decision.action
