"""`selfheal migrate`: the tables, and those of the checkpoints, as this version wants them."""

from __future__ import annotations

from app.clock import SystemClock
from app.settings import Settings
from app.store.checkpoints.checkpoints import open_checkpoints
from app.store.database.condition import condition
from app.store.database.database import StoreError
from app.store.store import open_store

__all__ = ["StoreError", "migrate"]


async def migrate(settings: Settings) -> str:
    """Where the database is now, in a line. Raises `StoreError`."""
    async with open_store(settings, SystemClock()), open_checkpoints(settings):
        pass
    now = await condition(settings.database)
    if now is None or now.revision is None:
        raise StoreError("the database was migrated and is gone again")
    return f"{now.name}: migration {now.revision}, the newest that this version knows"
