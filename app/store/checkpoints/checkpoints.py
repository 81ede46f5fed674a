"""The engine's checkpoints: in PostgreSQL if that is the database, otherwise in a file next to SQLite's database."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from app import private_files
from app.settings import Settings
from app.store.database.address import Postgres, read

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver

_BUSY_SECONDS = 30.0


@contextlib.asynccontextmanager
async def open_checkpoints(settings: Settings) -> AsyncIterator[BaseCheckpointSaver[str]]:
    """Open the checkpoints, creating them if needed; close them at the end. Raises `StoreError`."""
    # Imported late: slow to import, and commands that only read do not need it.
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

    # The state is plain data without classes, so that whoever can write checkpoints cannot run code.
    serde = JsonPlusSerializer(allowed_msgpack_modules=[])
    address = read(settings.database)
    if isinstance(address, Postgres):
        from app.store.checkpoints.postgres import opened

        async with opened(address, serde) as checkpoints:
            yield checkpoints
        return
    import aiosqlite
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    path = address.path.with_name("checkpoints.db")
    await asyncio.to_thread(private_files.make_database, path)
    async with aiosqlite.connect(path, timeout=_BUSY_SECONDS) as connection:
        checkpointer = AsyncSqliteSaver(connection, serde=serde)
        await checkpointer.setup()
        yield checkpointer
