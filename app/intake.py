"""Takes what the webhooks decided: commits it, then enqueues the attempt's id. The database is the truth.

Deliveries that come while a transaction runs share the next one: a commit that waits for the disk costs the same for many.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from functools import partial

import structlog
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from app.observability import traces
from app.queue.queue import Queue
from app.store.database.retries import is_passing, patiently
from app.store.deliveries.batches import Arrival, take_all
from app.store.deliveries.deliveries import take
from app.store.store import Store
from app.together import Together
from webhooks.intake import Decision, Delivery, Ignored, NotDurable, RepairRequest, Taken

_RACES = 5  # that one delivery may lose against others, each on another row
_COMMIT_SECONDS = 8.0  # GitHub hangs up after ten
_MOST = 200  # deliveries in one transaction

log = structlog.get_logger(__name__)


class StoreIntake:
    """`webhooks.intake.Intake` on the store and the queue."""

    def __init__(self, store: Store, queue: Queue, *, traced: bool = False) -> None:
        self._store = store
        self._queue = queue
        self._traced = traced
        self._arrivals: Together[Arrival, Taken] = Together(self._commit_all, _MOST)

    async def take(self, delivery: Delivery, decision: Decision) -> Taken:
        """Commit, then enqueue if that goes quickly (the sweeper enqueues what is missing). Raises `NotDurable`."""
        began, commits = time.time_ns(), 0

        async def commit() -> Taken:
            nonlocal commits
            commits += 1
            return await self._commit(delivery, decision)

        try:
            async with asyncio.timeout(_COMMIT_SECONDS):
                taken = await patiently(commit, _COMMIT_SECONDS)
        except (SQLAlchemyError, OSError) as error:
            log.error("not stored; GitHub is to send it again", delivery=delivery.guid, kind=delivery.event, error=str(error))
            raise NotDurable(f"the delivery could not be stored: {type(error).__name__}") from error
        _told(delivery, decision, taken)
        # A duplicate at the second time is this delivery itself, where the answer to its commit was lost.
        if taken.attempt_id is not None and (commits > 1 or not taken.duplicate):
            await self._queue.enqueue(taken.attempt_id)
            if self._traced:
                traces.delivered(taken.attempt_id, delivery.guid, delivery.event, began)
        return taken

    async def _commit(self, delivery: Delivery, decision: Decision) -> Taken:
        match decision:
            case RepairRequest(source="comment"):
                return await self._commit_one(delivery, decision)
            case Ignored() | RepairRequest():
                return await self._arrivals.ask((delivery, decision))
            case _:  # waits for the rows of attempts that workers may hold; nobody else is to wait with it
                return await self._commit_one(delivery, decision)

    async def _commit_all(self, arrivals: Sequence[Arrival]) -> Sequence[Taken | Exception]:
        """All in one transaction; each in its own where that one is refused, so that no delivery fails for another one."""
        try:
            async with asyncio.timeout(_COMMIT_SECONDS):
                return await self._store.database.write_in_one(
                    partial(take_all, arrivals=arrivals, now=self._store.clock.now())
                )
        except Exception as error:
            if is_passing(error):
                raise
        return [await self._settled(*arrival) for arrival in arrivals]

    async def _settled(self, delivery: Delivery, decision: Decision) -> Taken | Exception:
        try:
            return await self._commit_one(delivery, decision)
        except Exception as error:  # noqa: BLE001 - whoever asked gets it raised
            return error

    async def _commit_one(self, delivery: Delivery, decision: Decision) -> Taken:
        lost: IntegrityError
        for _ in range(_RACES):
            try:
                async with self._store.database.write() as session:
                    return await take(session, delivery, decision, self._store.clock.now())
            except IntegrityError as error:
                lost = error
        raise lost


def _told(delivery: Delivery, decision: Decision, taken: Taken) -> None:
    """One line for each. Its ids are named here: `app.log.bound` costs a fifth of the line, and no other line comes of it."""
    # What is ignored is most of what comes; its reason is in the database.
    level = logging.DEBUG if isinstance(decision, Ignored) or taken.duplicate else logging.INFO
    ids = {"delivery": delivery.guid} | ({"attempt": taken.attempt_id} if taken.attempt_id else {})
    log.log(level, "taken", kind=delivery.event, action=delivery.action, duplicate=taken.duplicate, **ids)
