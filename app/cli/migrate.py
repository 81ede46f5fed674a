"""`selfheal migrate`: bring the tables, including those of the checkpoints, to this version."""

from __future__ import annotations

from app.clock import SystemClock
from app.settings import Settings
from app.store.checkpoints.checkpoints import open_checkpoints
from app.store.database.condition import condition
from app.store.database.database import StoreError
from app.store.store import open_store

__all__ = ["StoreError", "migrate"]


async def migrate(settings: Settings) -> str:
    """Migrate; returns one line with the current migration. Raises `StoreError`."""
    async with open_store(settings, SystemClock()), open_checkpoints(settings):
        pass
    now = await condition(settings.database)
    if now is None or now.revision is None:
        raise StoreError("the database disappeared after its migration")
    return f"{now.name}: at migration {now.revision} (latest)"
