"""Regular looks at GitHub, of which one worker at a time takes each: GitHub is not asked once more for every worker.

A look stays with the worker that took it last, which knows GitHub's last answers, until that worker misses some.
"""

from __future__ import annotations

import contextlib
from datetime import datetime, timedelta
from functools import partial

from sqlalchemy import Connection, insert, select, update
from sqlalchemy.exc import IntegrityError

from app.store.models import LookRow
from app.store.store import Store


async def begin(store: Store, name: str, worker: str, lasting: float) -> bool:
    """Whether the worker has to take this look: it took the last one, or nobody has for `lasting` seconds."""
    now = store.clock.now()
    with contextlib.suppress(IntegrityError):  # another worker takes the very first one
        return await store.database.write_in_one(partial(_begin, name, worker, now, now - timedelta(seconds=lasting)))
    return False


def _begin(name: str, worker: str, now: datetime, missed: datetime, connection: Connection) -> bool:
    known = select(LookRow.worker, LookRow.began_at).where(LookRow.name == name).with_for_update()
    row = connection.execute(known).one_or_none()
    if row is None:
        connection.execute(insert(LookRow), {"name": name, "worker": worker, "began_at": now})
        return True
    if row.worker != worker and row.began_at > missed:
        return False
    connection.execute(update(LookRow).where(LookRow.name == name).values(worker=worker, began_at=now))
    return True


async def known_until(store: Store, name: str) -> datetime | None:
    """Until when all that this look reads is known; None before the first one."""
    async with store.database.read() as session:
        row = await session.get(LookRow, name)
        return row.known_until if row is not None else None


async def record_known(store: Store, name: str, until: datetime) -> None:
    """Record that all that the look reads is known until then. It has begun."""
    async with store.database.write() as session:
        await session.execute(update(LookRow).where(LookRow.name == name).values(known_until=until))
