"""Regular looks at GitHub, of which one worker at a time takes each: GitHub is not asked once more for every worker.

A look stays with the worker that took it last, which knows GitHub's last answers, until that worker misses some, or fails.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from functools import partial

from sqlalchemy import Connection, insert, select, update
from sqlalchemy.exc import IntegrityError

from app.store.models import LookRow
from app.store.store import Store

_NOBODY = ""  # the worker of a look that was given up


class Look:
    """One worker's part in a look: another worker takes it over after `lasting` seconds without one."""

    def __init__(self, store: Store, name: str, worker: str, lasting: float) -> None:
        self._store, self._name, self._worker, self._lasting = store, name, worker, lasting
        self._started = store.clock.now()

    @contextlib.asynccontextmanager
    async def turn(self) -> AsyncIterator[bool]:
        """Whether the worker has to take the look now; an error in the block leaves the next one to any worker.

        Soon after the worker's start, the look of another counts only if it began since then.
        """
        since_start = (self._store.clock.now() - self._started).total_seconds()
        is_due = await begin(self._store, self._name, self._worker, min(self._lasting, since_start))
        try:
            yield is_due
        except Exception:
            await _give_up(self._store, self._name, self._worker)
            raise


async def begin(store: Store, name: str, worker: str, lasting: float) -> bool:
    """Whether the worker has to take this look: it took the last one, or nobody has, with success, for `lasting` seconds."""
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
    if row.worker not in (worker, _NOBODY) and row.began_at > missed:
        return False
    connection.execute(update(LookRow).where(LookRow.name == name).values(worker=worker, began_at=now))
    return True


async def _give_up(store: Store, name: str, worker: str) -> None:
    async with store.database.write() as session:
        ours = update(LookRow).where(LookRow.name == name, LookRow.worker == worker)
        await session.execute(ours.values(worker=_NOBODY))


async def known_until(store: Store, name: str) -> datetime | None:
    """Until when all that this look reads is known; None before the first one."""
    async with store.database.read() as session:
        row = await session.get(LookRow, name)
        return row.known_until if row is not None else None


async def record_known(store: Store, name: str, until: datetime) -> None:
    """Record that all that the look reads is known until then. It has begun."""
    async with store.database.write() as session:
        await session.execute(update(LookRow).where(LookRow.name == name).values(known_until=until))
