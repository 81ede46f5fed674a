"""What a worker opens has the operator's settings."""

from __future__ import annotations

import asyncio

import pytest

from app.attempt.story import Deps
from app.queue.queue import Queue
from app.service.run import open_jobs
from tests.app.plant import Plant


async def test_the_settings_reach_the_attempts_and_who_looks_for_missed_runs(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them has a default, so that a forgotten one is not noticed otherwise."""
    changed = {
        "branch_prefix": "bot/", "wait_for_runs_seconds": 7.0, "rerun_flaky": "once", "max_tries": 5,
        "pages_url": "https://selfheal.example.com", "sandbox": "process", "trust_code": True,
    }  # fmt: skip
    settings = plant.settings.model_copy(update=changed)
    given: list[Deps] = []
    prefixes: list[object] = []

    async def heal(_: str, deps: Deps) -> None:
        given.append(deps)

    async def take_up_for_ever(*parts: object) -> None:
        prefixes.append(parts[-1])

    monkeypatch.setattr("app.attempt.story.heal", heal)
    monkeypatch.setattr("app.service.reconciler.take_up_for_ever", take_up_for_ever)
    async with open_jobs(settings, plant.store, Queue.to("redis://127.0.0.1:1", settings)) as jobs:
        await jobs.heal("one")
        await asyncio.sleep(0)

    (deps,) = given
    assert (deps.branch_prefix, prefixes) == ("bot/", ["bot/"])
    assert (deps.wait_for_runs, deps.rerun, deps.max_tries) == (7.0, "once", 5)
    assert deps.pages_url == "https://selfheal.example.com"
