"""Webhooks that could not be delivered are asked for again, each a few times at most."""

from __future__ import annotations

import asyncio
from copy import copy
from datetime import timedelta

import pytest
from structlog.testing import capture_logs

from app.github.client import GitHub
from app.service.missed import KEPT, redeliver_for_ever, redeliver_missed
from app.stopping import cancel_and_wait
from app.store import looks
from app.store.store import Store
from tests.app.plant import Plant
from tests.app.requests import MovableClock
from tests.app.waiting import until
from tests.standins.github.state import now


async def looked(plant: Plant, minutes: float = 5) -> int:
    """How many deliveries a look asks for, some minutes later; nobody listens to them."""
    store = copy(plant.store)
    store.clock = MovableClock(now() + timedelta(minutes=minutes))
    await looks.begin(store, "deliveries", "w1", 0.0)
    return await redeliver_missed(plant.deps.github, store)


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


def pages(plant: Plant) -> int:
    """How many pages of deliveries were read."""
    return sum(request.startswith("GET /app/hook/deliveries") for request in plant.github.requests)


async def test_what_was_read_before_is_not_read_again(plant: Plant) -> None:
    for _ in range(150):
        plant.github.tell_installation("acme")
    for each in plant.github.deliveries:
        each.status_code = 202
    assert await looked(plant) == 0
    assert pages(plant) == 2
    known = await looks.known_until(plant.store, "deliveries")
    plant.github.tell_installation("acme")
    plant.github.deliveries[-1].at += timedelta(minutes=10)
    assert await looked(plant, minutes=20) == 1
    assert pages(plant) == 3, "the first one, with what is new"
    assert await looks.known_until(plant.store, "deliveries") == known, "it has not arrived yet"


async def test_nothing_is_read_that_github_does_not_keep(plant: Plant) -> None:
    plant.github.tell_installation("acme")
    (old,) = plant.github.deliveries
    old.at -= KEPT
    await looks.begin(plant.store, "deliveries", "w1", 0.0)
    await looks.record_known(plant.store, "deliveries", now() - 3 * KEPT)
    assert await looked(plant) == 0


async def test_workers_that_start_together_read_once(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.service.missed._FIRST", (0.0, 0.05))
    asked: list[str] = []
    plant.github.faults.on("GET", "/app/hook/deliveries", lambda *_: asked.append("read"), "before")
    begin, began = looks.begin, list[str]()

    async def counted(store: Store, name: str, worker: str, lasting: float) -> bool:
        try:
            return await begin(store, name, worker, lasting)
        finally:
            began.append(worker)

    monkeypatch.setattr(looks, "begin", counted)
    settings = plant.settings
    async with GitHub(plant.github.app_id, plant.github.private_key, api_url=settings.github_api_url) as client:
        working = [asyncio.create_task(redeliver_for_ever(client, plant.store, f"w{number}")) for number in range(8)]
        try:
            await until(lambda: len(began) == 8 and bool(asked))
        finally:
            for each in working:
                each.cancel()
            await asyncio.wait(working)
    assert asked == ["read"]


async def test_a_worker_that_cannot_ask_github_leaves_the_look_to_another(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.service.missed._FIRST", (0.0, 0.0))
    monkeypatch.setattr("app.service.missed._USUALLY", 0.01)
    begin, began = looks.begin, list[tuple[str, bool]]()

    async def noted(store: Store, name: str, worker: str, lasting: float) -> bool:
        began.append((worker, await begin(store, name, worker, lasting)))
        return began[-1][1]

    monkeypatch.setattr(looks, "begin", noted)
    settings = plant.settings
    async with GitHub(plant.github.app_id + 1, plant.github.private_key, api_url=settings.github_api_url) as unknown:
        broken = asyncio.create_task(redeliver_for_ever(unknown, plant.store, "broken"))
        try:
            await until(lambda: ("broken", True) in began)
            healthy = asyncio.create_task(redeliver_for_ever(plant.deps.github, plant.store, "healthy"))
            try:
                await until(lambda: began[-1] == ("broken", False))
            finally:
                await cancel_and_wait(healthy)
        finally:
            await cancel_and_wait(broken)
    assert ("healthy", True) in began
