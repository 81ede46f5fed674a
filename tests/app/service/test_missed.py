"""Webhooks that could not be delivered are asked for again, each a few times at most."""

from __future__ import annotations

import asyncio
from copy import copy
from datetime import timedelta

from structlog.testing import capture_logs

from app.service.missed import KEPT, redeliver_missed
from tests.app.plant import Plant
from tests.app.requests import MovableClock
from tests.standins.github.state import now


async def looked(plant: Plant) -> int:
    """How many deliveries a look asks for, some minutes later; nobody listens to them."""
    store = copy(plant.store)
    store.clock = MovableClock(now() + timedelta(minutes=5))
    return await redeliver_missed(plant.deps.github, store, store.clock.now() - KEPT)


async def test_a_delivery_that_github_does_not_find_does_not_stop_the_others(plant: Plant) -> None:
    for _ in range(3):
        plant.github.tell_installation("acme")
    first, gone, last = plant.github.deliveries
    plant.github.faults.status("POST", f"/app/hook/deliveries/{gone.id}/attempts", 404)
    with capture_logs() as logs:
        assert await looked(plant) == 3, "the refused one is looked for again"
    assert [each.guid for each in plant.github.deliveries[3:]] == [first.guid, last.guid]
    assert [entry["delivery"] for entry in logs if entry["log_level"] == "warning"] == [gone.guid]


async def test_workers_that_look_at_once_do_not_use_up_its_tries(plant: Plant) -> None:
    plant.github.tell_installation("acme")
    await asyncio.gather(*(looked(plant) for _ in range(8)))
    assert len(plant.github.deliveries) == 9
    assert await looked(plant) == 1


async def test_after_eight_minutes_with_tries_it_is_left(plant: Plant) -> None:
    plant.github.tell_installation("acme")
    for ago in range(7, 0, -1):
        plant.github.deliveries[-1].at -= timedelta(minutes=2 * ago)
        assert await looked(plant) == 1
    assert await looked(plant) == 0
    assert len(plant.github.deliveries) == 8
