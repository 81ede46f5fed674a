"""The file of checkpoints beside the database: where the engine's graph sleeps, and where a fork begins."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from app.settings import Settings

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver

_BUSY_SECONDS = 30.0


@contextlib.asynccontextmanager
async def open_checkpoints(settings: Settings) -> AsyncIterator[BaseCheckpointSaver[str]]:
    """Open the file, make it where it is missing, close it at the end."""
    # Heavy, and not for commands that only look.
    import aiosqlite
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    settings.data_dir.mkdir(parents=True, exist_ok=True)
    async with aiosqlite.connect(settings.data_dir / "checkpoints.db", timeout=_BUSY_SECONDS) as connection:
        # The state is plain data: whoever can write the file shall not choose a class that is made from it.
        checkpointer = AsyncSqliteSaver(connection, serde=JsonPlusSerializer(allowed_msgpack_modules=[]))
        await checkpointer.setup()
        yield checkpointer
