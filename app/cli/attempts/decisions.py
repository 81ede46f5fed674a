"""`selfheal attempts approve`, `reject` and `fork`: record a person's decision, and queue the attempt for a worker."""

from __future__ import annotations

import uuid

from app.clock import SystemClock
from app.observability import log
from app.queue.queue import Queue
from app.queue.redis import RedisMissing, running_redis
from app.settings import PREFIX, Settings
from app.store.checkpoints.checkpoints import open_checkpoints
from app.store.leases.changes import Fork, describe_fork
from app.store.store import Store, open_store
from app.store.values import Attempt


class DecisionRefused(Exception):
    """The decision cannot be applied; the message says why and what to do."""


async def answer(settings: Settings, attempt_id: str, *, approved: bool, why: str = "") -> None:
    """Answer a waiting attempt and queue it. Raises `DecisionRefused`, `StoreError`."""
    log.configure(settings.log_level, settings.secrets)
    async with open_store(settings, SystemClock(), migrate=False) as store:
        attempt = await _find(store, attempt_id)
        if (refusal := await store.reply(attempt.id, approved, why)) is not None:
            raise DecisionRefused(refusal)
    await _enqueue(settings, attempt.id)
    verb = "Approved" if approved else "Rejected"
    print(f"{verb} attempt {attempt.id[:12]}. A worker will act on this as soon as one is free.")  # noqa: T201 - the command's answer


async def fork(settings: Settings, attempt_id: str, *, from_iteration: int, hint: str = "", model: str | None = None) -> None:
    """Start a new attempt from an iteration of an earlier one. Raises `DecisionRefused`, `StoreError`, `SettingsError`.

    The source attempt is not changed, even if it is still running or waiting. Only one attempt per commit runs at a time, so a
    fork of a running attempt stays queued until that one ends.
    """
    from agent.forking import CannotFork, Course
    from agent.forking import fork as start_fork
    from app.assembly import extensions_of

    log.configure(settings.log_level, settings.secrets)
    async with open_store(settings, SystemClock(), migrate=False) as store:
        source = await _find(store, attempt_id)
        made = Fork(uuid.uuid4().hex, source.id, from_iteration, hint.strip(), model)
        course = Course(
            from_iteration, describe_fork(made), made.hint, f"model:{model.partition('@http')[0]}" if model else None
        )
        extensions = await extensions_of()
        async with open_checkpoints(settings) as checkpointer:
            try:
                await start_fork(checkpointer, extensions.opinions, source.id, made.id, course)
            except CannotFork as error:
                raise DecisionRefused(
                    f"attempt {source.id[:12]} cannot be forked: {error}. Checkpoints are kept next to the workers' database "
                    f"for {settings.keep_days:g} days after an attempt ends ({PREFIX}KEEP_DAYS). Comment `/heal` to start again"
                ) from error
        await store.fork(made)
    await _enqueue(settings, made.id)
    print(f"Attempt {made.id[:12]}: {describe_fork(made)}.")  # noqa: T201 - the command's answer


async def _find(store: Store, prefix: str) -> Attempt:
    found = await store.find_attempts(prefix)
    if len(found) != 1:
        raise DecisionRefused(f"{prefix!r} matches no attempt, or more than one; `selfheal attempts list` shows the ids")
    return found[0]


async def _enqueue(settings: Settings, attempt_id: str) -> None:
    """Enqueue the attempt now if Redis runs; otherwise a worker's sweep enqueues it."""
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
