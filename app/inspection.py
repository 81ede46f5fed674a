"""`selfheal attempts`: what the service did, read from its database."""

from __future__ import annotations

import json as jsonlib
from datetime import datetime
from typing import Any

from rich.table import Table

from app import terminal
from app.clock import SystemClock
from app.events import Stored
from app.settings import Settings
from app.store.database import StoreError
from app.store.store import open_store
from app.store.values import Attempt
from app.terminal import plain

__all__ = ["StoreError", "list_attempts", "show_attempt"]


async def list_attempts(settings: Settings, *, repository: str | None, limit: int, json: bool) -> None:
    """Print attempts, newest first."""
    async with open_store(settings, SystemClock()) as store:
        attempts = await store.attempts(repository=repository, limit=limit)
    if json:
        _print_json([_as_json(attempt) for attempt in attempts])
        return
    if not attempts:
        print("No attempts yet.")  # noqa: T201 - the command's answer
        return
    table = Table(box=None, pad_edge=False)
    for column in ("id", "repository", "commit", "branch", "outcome", "started by", "when", "pull request"):
        table.add_column(column, no_wrap=column in ("id", "commit", "outcome"))
    for attempt in attempts:
        table.add_row(
            attempt.id[:12],
            plain(attempt.repository.full_name),
            (attempt.head_sha or "?")[:10],
            plain(attempt.head_branch or "?"),
            attempt.outcome or attempt.status,
            plain(attempt.requests[0].title if attempt.requests else ""),
            _moment(attempt.created_at),
            attempt.pull_request.url if attempt.pull_request else "",
        )
    terminal.console().print(table)


async def show_attempt(settings: Settings, attempt_id: str, *, json: bool) -> bool:
    """Print one attempt with its timeline; False when there is none whose id begins so."""
    async with open_store(settings, SystemClock()) as store:
        attempt = await store.find_attempt(attempt_id)
        if attempt is None:
            return False
        timeline = await store.timeline(attempt.id)
    if json:
        _print_json({**_as_json(attempt), "timeline": [_event_as_json(stored) for stored in timeline]})
        return True
    console = terminal.console()
    for name, value in _as_json(attempt).items():
        if value is not None:
            console.print(plain(f"{name:>14}  {value}"))
    console.print()
    for stored in timeline:
        console.print(plain(f"{_moment(stored.at, seconds=True)}  {stored.event.text}"))
    return True


def _as_json(attempt: Attempt) -> dict[str, Any]:
    return {
        "id": attempt.id,
        "repository": attempt.repository.full_name,
        "head_sha": attempt.head_sha,
        "head_branch": attempt.head_branch,
        "number": attempt.number,
        "status": attempt.status,
        "outcome": attempt.outcome,
        "reason": attempt.reason,
        "next_step": attempt.next_step,
        "tries": attempt.tries,
        "trigger": "command" if attempt.by_command else "automatic",
        "requests": [request.title for request in attempt.requests],
        "pull_request": attempt.pull_request.url if attempt.pull_request else None,
        "tokens": attempt.usage.tokens_in + attempt.usage.tokens_out,
        "cost": attempt.usage.cost,
        "created_at": attempt.created_at.isoformat(),
        "ended_at": attempt.ended_at.isoformat() if attempt.ended_at else None,
    }


def _event_as_json(stored: Stored) -> dict[str, Any]:
    import msgspec

    event: dict[str, Any] = msgspec.to_builtins(stored.event)
    return {"sequence": stored.sequence, "at": stored.at.isoformat(), **event}


def _moment(at: datetime, *, seconds: bool = False) -> str:
    return at.astimezone().strftime("%Y-%m-%d %H:%M:%S" if seconds else "%Y-%m-%d %H:%M")


def _print_json(data: object) -> None:
    print(jsonlib.dumps(data, indent=2))  # noqa: T201 - the command's answer
