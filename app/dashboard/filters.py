"""Parses a request's parameters: an attempt's id, or the filters and cursor of a list of attempts. All are untrusted."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Collection
from datetime import UTC, datetime
from typing import Annotated, get_args

from fastapi import HTTPException, Query, Request

from agent.contract.outcome import Outcome
from app.store.store import Store
from app.store.values import Attempt, AttemptQuery, Cursor, Status, Trigger

STATUSES: tuple[Status, ...] = ("queued", "running", "waiting")
"""The states of an attempt that has no outcome yet."""
TRIGGERS: tuple[Trigger, ...] = get_args(Trigger)
NAMES = ("repository", "state", "trigger", "before")
"""The query parameters of the list of attempts."""


class BadQuery(HTTPException):
    """The query is invalid; `detail` names the parameter."""

    def __init__(self, detail: str) -> None:
        super().__init__(422, detail)


def reject_unknown(names: Collection[str]) -> None:
    """Raises `BadQuery` for unknown parameters, which would silently have no effect."""
    if unknown := [name for name in names if name not in NAMES]:
        raise BadQuery(f"Unknown parameter {', '.join(map(_quoted, unknown[:5]))}; allowed are {', '.join(NAMES)}")


def parse_query(repository: str, state: str, trigger: str, before: str) -> AttemptQuery:
    """Raises `BadQuery`. `state` is a status or an outcome."""
    repository = repository.strip()
    if len(repository) > 200:
        raise BadQuery("repository: at most 200 characters")
    outcome = Outcome(state) if state in list(Outcome) else None
    status = next((known for known in get_args(Status) if known == state), None)
    if state and outcome is None and status is None:
        raise BadQuery(f"state: {_quoted(state)} is not one of {', '.join((*get_args(Status), *Outcome))}")
    source = next((known for known in TRIGGERS if known == trigger), None)
    if trigger and source is None:
        raise BadQuery(f"trigger: {_quoted(trigger)} is not one of {', '.join(TRIGGERS)}")
    return AttemptQuery(repository.replace("\0", ""), status, outcome, source, parse_cursor(before) if before else None)


def cursor_of(attempt: Attempt) -> str:
    """An opaque cursor that points after this attempt."""
    return base64.urlsafe_b64encode(f"{attempt.created_at.isoformat()} {attempt.id}".encode()).decode().rstrip("=")


def parse_cursor(cursor: str) -> Cursor:
    """Raises `BadQuery`."""
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        at, _, attempt_id = base64.b64decode(padded, b"-_", validate=True).decode("ascii").partition(" ")
        created_at = datetime.fromisoformat(at)
        if created_at.tzinfo is not None:
            created_at = created_at.astimezone(UTC)  # overflows outside the years 1 to 9999
    except (ValueError, OverflowError, binascii.Error):
        created_at, attempt_id = None, ""
    if created_at is None or created_at.tzinfo is None or not (attempt_id.isalnum() and len(attempt_id) <= 32):
        raise BadQuery(f"before: {_quoted(cursor)} is not a valid cursor; use `next` from the previous page")
    return Cursor(created_at, attempt_id)


def _quoted(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:60] + "…")


Text = Annotated[str, Query(max_length=500)]

_PREFIX = re.compile(r"[0-9a-fA-F]{8,32}")  # of an id; the command line shows 12 digits


async def find_attempt(request: Request, attempt_id: str) -> Attempt:
    """Find an attempt by its id or a unique prefix. Raises `HTTPException` unless exactly one matches."""
    is_valid = attempt_id.isascii() and attempt_id.isalnum() and len(attempt_id) <= 32
    attempt = await store_of(request).attempt(attempt_id) if is_valid else None
    if attempt is not None:
        return attempt
    found = await store_of(request).find_attempts(attempt_id) if _PREFIX.fullmatch(attempt_id) else []
    if len(found) > 1:
        raise HTTPException(404, f"Several attempts have ids that start with {attempt_id!r}. Use more digits of the id.")
    if not found:
        raise HTTPException(404, f"There is no attempt {attempt_id[:64]!r}.")
    return found[0]


def store_of(request: Request) -> Store:
    store: Store = request.state.store
    return store
