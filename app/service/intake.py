"""Stores the webhooks' decisions, then enqueues the attempts' ids. The database is the source of truth.

Deliveries that arrive while a transaction runs share the next one, as waiting for the disk costs the same for many.
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
from app.queue.queue import Batcher, Queue
from app.store.database.retries import is_transient, retried
from app.store.deliveries import BatchItem, record, record_batch
from app.store.store import Store
from webhooks.intake import Decision, Delivery, Ignored, NotDurable, Receipt, RepairRequest

_MAX_RACES = 5  # lost races of one delivery, each for another row
_COMMIT_SECONDS = 8.0  # GitHub hangs up after ten
_MAX_BATCH = 200  # deliveries in one transaction

log = structlog.get_logger(__name__)


class StoreIntake:
    """Implements `webhooks.intake.Intake` with the store and the queue."""

    def __init__(self, store: Store, queue: Queue, *, traced: bool = False) -> None:
        self._store = store
        self._queue = queue
        self._traced = traced
        self._batcher: Batcher[BatchItem, Receipt] = Batcher(self._commit_all, _MAX_BATCH)

    async def take(self, delivery: Delivery, decision: Decision) -> Receipt:
        """Commit, then try to enqueue (the sweeper enqueues what is missing). Raises `NotDurable`."""
        began, commits = time.time_ns(), 0

        async def commit() -> Receipt:
            nonlocal commits
            commits += 1
            return await self._commit(delivery, decision)

        try:
            async with asyncio.timeout(_COMMIT_SECONDS):
                receipt = await retried(commit, _COMMIT_SECONDS)
        except (SQLAlchemyError, OSError) as error:
            log.error(
                "delivery not stored; GitHub has to redeliver it", delivery=delivery.guid, kind=delivery.event, error=str(error)
            )
            raise NotDurable(f"the delivery could not be stored: {type(error).__name__}") from error
        _log_receipt(delivery, decision, receipt)
        # A duplicate on a repeated commit is this delivery itself: the reply to its first commit was lost.
        if isinstance(decision, RepairRequest) and decision.by_command and receipt.attempt_id is None:
            await self._queue.enqueue_commands(decision.repository.id, decision.pull_number or 0)
        elif receipt.attempt_id is not None and (commits > 1 or not receipt.duplicate):
            await self._queue.enqueue(receipt.attempt_id)
            if self._traced:
                traces.record_delivery(receipt.attempt_id, delivery.guid, delivery.event, began)
        return receipt

    async def _commit(self, delivery: Delivery, decision: Decision) -> Receipt:
        if isinstance(decision, Ignored) or (isinstance(decision, RepairRequest) and not decision.by_command):
            return await self._batcher.submit((delivery, decision))
        return await self._commit_one(delivery, decision)  # may wait for rows that workers have locked

    async def _commit_all(self, batch: Sequence[BatchItem]) -> Sequence[Receipt | Exception]:
        """Commit all in one transaction; if that fails, each in its own, so that none fails because of another."""
        try:
            async with asyncio.timeout(_COMMIT_SECONDS):
                return await self._store.database.write_in_one(partial(record_batch, batch=batch, now=self._store.clock.now()))
        except Exception as error:  # a race or bad data: committing each delivery alone shows which one is to blame
            if is_transient(error):
                raise
        return [await self._commit_or_error(*item) for item in batch]

    async def _commit_or_error(self, delivery: Delivery, decision: Decision) -> Receipt | Exception:
        try:
            return await self._commit_one(delivery, decision)
        except Exception as error:  # noqa: BLE001 - whatever it is, the batcher raises it for this delivery
            return error

    async def _commit_one(self, delivery: Delivery, decision: Decision) -> Receipt:
        lost: IntegrityError
        for _ in range(_MAX_RACES):
            try:
                async with self._store.database.write() as session:
                    return await record(session, delivery, decision, self._store.clock.now())
            except IntegrityError as error:
                lost = error
        raise lost


def _log_receipt(delivery: Delivery, decision: Decision, receipt: Receipt) -> None:
    """Log one line per delivery. Most deliveries are ignored: those are logged at `debug`; the database has their reason."""
    level = logging.DEBUG if isinstance(decision, Ignored) or receipt.duplicate else logging.INFO
    ids = {"delivery": delivery.guid} | ({"attempt": receipt.attempt_id} if receipt.attempt_id else {})
    log.log(level, "taken", kind=delivery.event, action=delivery.action, duplicate=receipt.duplicate, **ids)
