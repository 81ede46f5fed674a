"""What a request for a list asks for: filters and a place to go on from, read from its query. Nothing in it is trusted."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import get_args

from agent.contract.outcome import Outcome
from app.store.values import Attempt, Place, Status, Trigger, Wanted

STATUSES: tuple[Status, ...] = ("queued", "running", "waiting")
"""The states that are no outcomes."""
TRIGGERS: tuple[Trigger, ...] = get_args(Trigger)


NAMES = ("repository", "state", "trigger", "before")
"""The parameters of a list."""


class BadQuery(Exception):
    """The query asks for what cannot be; the message is one sentence that names it."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A list that somebody asked for."""

    wanted: Wanted
    before: Place | None

    @property
    def filters(self) -> dict[str, str]:
        """The filters as they stand in a query; what does not matter is left out."""
        wanted = self.wanted
        named = {
            "repository": wanted.repository,
            "state": wanted.outcome or wanted.status or "",
            "trigger": wanted.trigger or "",
        }
        return {name: str(value) for name, value in named.items() if value}


def only_known(names: Collection[str]) -> None:
    """Raises `BadQuery` where a name is none of a list's parameters: it would filter nothing, unnoticed."""
    if unknown := [name for name in names if name not in NAMES]:
        said = ", ".join(map(_quoted, unknown[:5]))
        raise BadQuery(f"{said}: no parameter here; there are {', '.join(NAMES)}")


def asked(repository: str, state: str, trigger: str, before: str) -> Asked:
    """Raises `BadQuery`. `state` is a status or an outcome."""
    repository = repository.strip()
    if len(repository) > 200:
        raise BadQuery("repository: at most 200 characters")
    outcome = Outcome(state) if state in list(Outcome) else None
    status = next((known for known in get_args(Status) if known == state), None)
    if state and outcome is None and status is None:
        raise BadQuery(f"state: {_quoted(state)} is none of {', '.join((*get_args(Status), *Outcome))}")
    source = next((known for known in TRIGGERS if known == trigger), None)
    if trigger and source is None:
        raise BadQuery(f"trigger: {_quoted(trigger)} is none of {', '.join(TRIGGERS)}")
    return Asked(Wanted(repository.replace("\0", ""), status, outcome, source), place_of(before) if before else None)


def cursor_of(attempt: Attempt) -> str:
    """Opaque: the place after this attempt."""
    return base64.urlsafe_b64encode(f"{attempt.created_at.isoformat()} {attempt.id}".encode()).decode().rstrip("=")


def place_of(cursor: str) -> Place:
    """Raises `BadQuery`."""
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        at, _, attempt_id = base64.b64decode(padded, b"-_", validate=True).decode("ascii").partition(" ")
        created_at = datetime.fromisoformat(at)
        if created_at.tzinfo is not None:
            created_at = created_at.astimezone(UTC)  # before the year 1 and after 9999 there is nothing
    except (ValueError, OverflowError, binascii.Error):
        created_at, attempt_id = None, ""
    if created_at is None or created_at.tzinfo is None or not (attempt_id.isalnum() and len(attempt_id) <= 32):
        raise BadQuery(f"before: {_quoted(cursor)} is no cursor of ours; take `next` of the page before")
    return Place(created_at, attempt_id)


def _quoted(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:60] + "…")
