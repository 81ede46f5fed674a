"""`selfheal attempts approve`, `reject` and `fork`: a person's word on an attempt, put where every worker finds it.

A refusal is a sentence for that person.
"""

from __future__ import annotations

import uuid

from app.clock import SystemClock
from app.observability import log
from app.queue.queue import Queue
from app.queue.redis import RedisMissing, running_redis
from app.settings import PREFIX, Settings
from app.store.checkpoints.checkpoints import open_checkpoints
from app.store.database.database import StoreError
from app.store.leases.decisions import Fork, told
from app.store.store import Store, open_store
from app.store.values import Attempt

__all__ = ["CannotSteer", "StoreError", "answer", "fork"]


class CannotSteer(Exception):
    """The message says why, and what can be done."""


async def answer(settings: Settings, attempt_id: str, *, approved: bool, why: str = "") -> None:
    """Reply to an attempt that waits, and hand it to a worker. Raises `CannotSteer`, `StoreError`."""
    log.configure(settings.log_level, settings.secrets)
    async with open_store(settings, SystemClock(), migrate=False) as store:
        attempt = await _found(store, attempt_id)
        if (refusal := await store.reply(attempt.id, approved, why)) is not None:
            raise CannotSteer(refusal)
    await _enqueue(settings, attempt.id)
    verb = "approved" if approved else "rejected"
    print(f"Attempt {attempt.id[:12]} is {verb}; it goes on as soon as a worker is free.")  # noqa: T201 - the command's answer


async def fork(settings: Settings, attempt_id: str, *, from_iteration: int, hint: str = "", model: str | None = None) -> None:
    """Begin another attempt where an earlier one chose its round. Raises `CannotSteer`, `StoreError`, `SettingsError`.

    The source may still run or wait, and goes on as it is: the fork leaves it where it was before that round. Of one commit one
    attempt runs at a time, so the fork of a running one waits in the queue for its end.
    """
    from agent.forking import CannotFork, Checkpoints, Course
    from agent.forking import fork as begin
    from app.assembly import extensions_of

    log.configure(settings.log_level, settings.secrets)
    async with open_store(settings, SystemClock(), migrate=False) as store:
        source = await _found(store, attempt_id)
        made = Fork(uuid.uuid4().hex, source.id, from_iteration, hint.strip(), model)
        course = Course(from_iteration, told(made), made.hint, f"model:{model.partition('@http')[0]}" if model else None)
        extensions = await extensions_of()
        async with open_checkpoints(settings) as checkpointer:
            try:
                await begin(Checkpoints(checkpointer, extensions.opinions), source.id, made.id, course)
            except CannotFork as error:
                raise CannotSteer(
                    f"attempt {source.id[:12]} cannot be forked: {error}. Checkpoints are kept for {settings.keep_days:g} days "
                    f"after the end ({PREFIX}KEEP_DAYS), beside the workers' database; to begin afresh, comment `/heal`"
                ) from error
        await store.fork(made)
    await _enqueue(settings, made.id)
    print(f"Attempt {made.id[:12]}: {told(made)}.")  # noqa: T201 - the command's answer


async def _found(store: Store, beginning: str) -> Attempt:
    found = await store.find_attempts(beginning)
    if len(found) != 1:
        raise CannotSteer(f"there is no attempt {beginning!r}, or more than one; `selfheal attempts list` shows them")
    return found[0]


async def _enqueue(settings: Settings, attempt_id: str) -> None:
    """At once where Redis is there; else a worker's sweeper brings it."""
    try:
        url = running_redis(settings)
    except RedisMissing:
        return
    if url is not None:
        queue = Queue.to(url, settings)
        try:
            await queue.enqueue(attempt_id)
        finally:
            await queue.close()
