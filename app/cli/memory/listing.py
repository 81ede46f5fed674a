"""`selfheal memory list` and `forget`: the memories kept for each repository."""

from __future__ import annotations

import json as jsonlib
from typing import Any

from rich.table import Table

from app.cli import terminal
from app.cli.terminal import plain
from app.clock import SystemClock
from app.settings import Settings
from app.store.database.database import StoreError
from app.store.memories import StoredMemory
from app.store.store import open_store

__all__ = ["StoreError", "forget", "list_memories"]


async def list_memories(settings: Settings, *, repository: str | None, limit: int, json: bool) -> None:
    """Print memories, newest first."""
    async with open_store(settings, SystemClock(), migrate=False) as store:
        kept = await store.memories(repository=repository, limit=limit)
    if json:
        print(jsonlib.dumps([_as_json(memory) for memory in kept], indent=2))  # noqa: T201 - the command's answer
        return
    if not kept:
        print("No memories yet.")  # noqa: T201 - the command's answer
        return
    table = Table(box=None, pad_edge=False)
    for column in ("id", "repository", "attempt", "outcome", "lessons"):
        table.add_column(column, no_wrap=column in ("id", "attempt", "outcome"))
    for memory in kept:
        of = memory.recollection
        learned = "; ".join([*([of.title] if of.title else []), *of.lessons])
        table.add_row(str(memory.id), plain(memory.repository), of.attempt[:12], of.outcome, plain(learned))
    terminal.console().print(table)


async def forget(settings: Settings, *, memory_id: int | None, repository: str | None) -> int:
    """Delete one memory, or all of a repository; returns how many."""
    async with open_store(settings, SystemClock(), migrate=False) as store:
        return await store.forget_memories(memory_id=memory_id, repository=repository)


def _as_json(memory: StoredMemory) -> dict[str, Any]:
    of = memory.recollection
    return {
        "id": memory.id,
        "repository": memory.repository,
        "attempt": of.attempt,
        "outcome": of.outcome,
        "signature": of.signature,
        "lessons": list(of.lessons),
        "title": of.title,
        "diff": of.diff,
        "created_at": memory.created_at.isoformat(),
    }
