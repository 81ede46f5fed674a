"""Asks GitHub to send missed webhooks again: GitHub does not do so by itself when it could not deliver one.

https://docs.github.com/webhooks/using-webhooks/automatically-redelivering-failed-deliveries-for-a-github-app-webhook
A delivery keeps its GUID, and each GUID is handled once, so asking twice doubles nothing. How far GitHub's list is known is
remembered, also over a restart: of three days, only the newest pages are read then.
"""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from random import uniform

import structlog
from sqlalchemy.exc import SQLAlchemyError

from app.github.client import GitHub
from app.github.errors import Forbidden, GitHubError, Invalid, NotFound
from app.github.types import HookDelivery
from app.store import looks
from app.store.store import Store

KEPT = timedelta(days=3)  # GitHub redelivers nothing that is older
_SETTLED = timedelta(minutes=1)  # a younger delivery may still be on its way
_MOST_TRIES = 8  # of one delivery; those in the same minute count as one
_LOOK = "deliveries"
_FIRST = (5.0, 20.0)  # seconds before the first look
_AGAIN, _USUALLY = 60.0, 3600.0  # seconds before a look: after missed ones, else
_LASTING = 5400.0  # seconds without a look, after which another worker takes it over

log = structlog.get_logger()


async def redeliver_missed(github: GitHub, store: Store) -> int:
    """Ask for every delivery that never arrived; returns how many, with those that GitHub refuses.

    Raises `GitHubError`, `SQLAlchemyError`.
    """
    now = store.clock.now()
    since = max(await looks.known_until(store, _LOOK) or now - KEPT, now - KEPT)
    tries: dict[str, list[HookDelivery]] = {}
    async for delivery in github.deliveries(since):
        tries.setdefault(delivery.guid, []).append(delivery)
    missed = {guid: same[0] for guid, same in tries.items() if _is_missed(same, now)}
    known = await store.known_deliveries(missed)
    unknown = [delivery for guid, delivery in missed.items() if guid not in known]
    for delivery in reversed(unknown):  # the oldest first, as they were sent
        try:
            await github.redeliver(delivery.id)
        except (NotFound, Forbidden, Invalid) as error:  # one delivery says nothing about the others
            log.warning("missed delivery not asked for", delivery=delivery.guid, error=str(error))
    if not unknown:
        await looks.record_known(store, _LOOK, now - 2 * _SETTLED)
    return len(unknown)


def _is_missed(tries: list[HookDelivery], now: datetime) -> bool:
    """`tries` are those of one GUID, newest first."""
    settled = tries[0].delivered_at < now - _SETTLED
    minutes = {each.delivered_at.replace(second=0, microsecond=0) for each in tries}
    return settled and len(minutes) < _MOST_TRIES and not any(200 <= each.status_code < 300 for each in tries)


async def redeliver_for_ever(github: GitHub, store: Store, worker: str) -> None:
    """Look for missed deliveries at the start and every hour; sooner after some were missed, as a redelivery can fail too."""
    wait, pause = uniform(*_FIRST), _AGAIN  # noqa: S311 - no secret
    look = looks.Look(store, _LOOK, worker, _LASTING)
    while True:
        await asyncio.sleep(wait)
        wait = _USUALLY
        try:
            async with look.turn() as is_due:
                count = await redeliver_missed(github, store) if is_due else 0
        except (GitHubError, SQLAlchemyError, OSError) as error:
            log.warning("missed deliveries not looked for", error=str(error))
            continue
        if count:
            log.info("asked GitHub for missed deliveries", count=count)
            wait, pause = pause, min(2 * pause, _USUALLY)
        else:
            pause = _AGAIN
