"""An attempt asks a person, sleeps in the database, and goes on with the answer, on whichever worker."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from agent.contract.events import Answered, Asked, Reflected
from agent.contract.outcome import Outcome
from agent.contract.task import Policy
from app.attempt.story import heal
from app.settings import Settings
from app.store.leases.claims import NotClaimed
from tests.app.plant import NAME, Plant
from tests.app.requests import taken
from tests.tiers import long_but

ROOT = Path(__file__).resolve().parents[3]


async def asking(plant: Plant, configuration: str = "autonomy: review_publish\n") -> str:
    """An attempt that has come as far as its question; its id."""
    attempt_id = await taken(plant.store, replace(plant.request, head_sha=await plant.broken(configuration)))
    await heal(attempt_id, plant.deps)
    attempt = await plant.attempt(attempt_id)
    assert attempt.status == "waiting", attempt.reason
    return attempt_id


async def elsewhere(settings: Settings, attempt_id: str, kill_at: str = "") -> int | None:
    """Let a worker process of its own heal the attempt; its exit code."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("SELFHEAL_")}
    key = settings.github_private_key
    assert key is not None
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.app.attempt.healer", attempt_id, *([kill_at] if kill_at else []),
        cwd=ROOT,
        env={
            **inherited,
            "SELFHEAL_DATA_DIR": str(settings.data_dir),
            "SELFHEAL_DATABASE_URL": settings.database,
            "SELFHEAL_MODEL": "none",
            "SELFHEAL_GITHUB_APP_ID": str(settings.github_app_id),
            "SELFHEAL_GITHUB_PRIVATE_KEY": key.get_secret_value(),
            "SELFHEAL_GITHUB_API_URL": settings.github_api_url,
            "SELFHEAL_GITHUB_WRITE_SECONDS": "0",
        },
    )  # fmt: skip
    try:
        async with asyncio.timeout(120):
            return await process.wait()
    finally:
        if process.returncode is None:
            process.kill()


@pytest.mark.long
async def test_an_attempt_asks_before_it_publishes_and_goes_on_days_later_in_another_process(plant: Plant) -> None:
    attempt_id = await asking(plant)

    waiting = await plant.attempt(attempt_id)
    assert waiting.question is not None
    assert "+    return a + b" in waiting.question.diff
    assert (waiting.worker, waiting.tries) == (None, 0)
    (run,) = plant.github.check_runs(NAME)
    assert (run.status, run.conclusion) == ("completed", "neutral"), "nothing is in progress for days"
    assert (
        f"Only the operator of this Selfheal installation can answer, for the attempt `{attempt_id[:12]}`."
        in run.output["summary"]
    )
    assert not plant.github.pull_requests(NAME)
    asked = [stored.event for stored in await plant.store.timeline(attempt_id) if isinstance(stored.event, Asked)]
    assert len(asked) == 1

    await plant.change(attempt_id, created_at=plant.store.clock.now() - timedelta(days=5))
    assert await plant.store.due() == [], "the sweeper leaves it alone"
    with pytest.raises(NotClaimed, match="is waiting for a person"):
        async with plant.store.lease(attempt_id, "w2"):
            pass

    assert await plant.store.reply(attempt_id, approved=True) is None
    assert await plant.store.due() == [attempt_id]
    assert await elsewhere(plant.settings, attempt_id) == 0

    healed = await plant.attempt(attempt_id)
    assert healed.outcome is Outcome.HEALED, healed.reason
    assert healed.confidence is not None
    assert 0 < healed.confidence <= 1
    assert len(plant.github.pull_requests(NAME)) == 1
    assert plant.shown() == [("completed", "neutral")] * 2, "the answer starts a check run of its own"
    told = [stored.event for stored in await plant.store.timeline(attempt_id) if isinstance(stored.event, Asked | Answered)]
    assert [type(event) for event in told] == [Asked, Answered]


@pytest.mark.long
async def test_a_rejection_with_a_reason_is_learned_from_and_another_change_is_looked_for(plant: Plant) -> None:
    """The test can be met in several ways, none of which is sure."""
    await plant.broken("autonomy: review_publish\n")
    several = "def add(a, b):\n    if a > 2:\n        return a + b\n    return a - b\n"
    sha = await plant.github.push(NAME, "main", {"calc.py": several})
    deps = replace(plant.deps, engine=replace(plant.deps.engine, policy=Policy(min_confidence=0.1)))
    attempt_id = await taken(plant.store, replace(plant.request, head_sha=sha))
    await heal(attempt_id, deps)
    first = await plant.attempt(attempt_id)
    assert first.question is not None
    assert await plant.store.reply(attempt_id, approved=False, why="Use the operator module.") is None
    await heal(attempt_id, deps)

    again = await plant.attempt(attempt_id)
    events = [stored.event for stored in await plant.store.timeline(attempt_id)]
    lessons = [event.lesson for event in events if isinstance(event, Reflected)]
    assert any("Use the operator module." in lesson for lesson in lessons), lessons
    assert again.status == "waiting", again.reason
    assert again.question is not None
    assert again.question.diff != first.question.diff, "what was rejected is not proposed again"
    assert not plant.github.pull_requests(NAME)
    refusal = await plant.store.reply(attempt_id, approved=False)
    assert refusal is None, "the second question is answered by a word of its own"


@pytest.mark.long
async def test_a_rejection_without_a_reason_ends_the_attempt(plant: Plant) -> None:
    attempt_id = await asking(plant)
    assert await plant.store.reply(attempt_id, approved=False) is None
    await heal(attempt_id, plant.deps)
    assert (await plant.attempt(attempt_id)).outcome is Outcome.CANCELLED
    assert plant.shown() == [("completed", "neutral")] * 2
    assert not await plant.store.memories(), "there was nothing to learn"


@pytest.mark.parametrize("kill_at", long_but(["answered", "report", "publish"]))
async def test_a_reply_outlives_the_worker_that_takes_it(plant: Plant, kill_at: str) -> None:
    attempt_id = await asking(plant)
    assert await plant.store.reply(attempt_id, approved=True) is None
    assert await elsewhere(plant.settings, attempt_id, kill_at) == -signal.SIGKILL
    await plant.change(attempt_id, lease_expires_at=plant.store.clock.now(), tries=0)

    await heal(attempt_id, plant.deps)

    assert (await plant.attempt(attempt_id)).outcome is Outcome.HEALED
    events = [stored.event for stored in await plant.store.timeline(attempt_id)]
    assert len([event for event in events if isinstance(event, Answered)]) == 1
    assert len(plant.github.pull_requests(NAME)) == 1


@pytest.mark.long
async def test_a_reply_that_a_stopped_worker_used_does_not_answer_the_next_question(plant: Plant) -> None:
    """Stopped after the graph has come to its second question, and before that question was written down."""
    attempt_id = await asking(plant, "autonomy: review_all\n")
    first = await plant.attempt(attempt_id)
    assert first.question is not None
    assert first.question.about == "round"
    assert await plant.store.reply(attempt_id, approved=True) is None

    async def stopped(*_: object) -> None:
        raise asyncio.CancelledError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("app.store.leases.leases.Lease.wait", stopped)
        with pytest.raises(asyncio.CancelledError):
            await heal(attempt_id, plant.deps)
    assert await plant.store.due() == [attempt_id]
    assert (await plant.attempt(attempt_id)).reply is not None

    await heal(attempt_id, plant.deps)

    second = await plant.attempt(attempt_id)
    assert second.status == "waiting", "nobody approved the publication"
    assert second.question is not None
    assert second.question.about == "publish"
    assert not plant.github.pull_requests(NAME)


@pytest.mark.long
async def test_a_repository_can_only_ask_for_more_review_than_the_operator(plant: Plant) -> None:
    careful = replace(plant.deps.engine, policy=replace(plant.deps.engine.policy, autonomy="review_publish"))
    attempt_id = await taken(plant.store, replace(plant.request, head_sha=await plant.broken("autonomy: full\n")))
    await heal(attempt_id, replace(plant.deps, engine=careful))
    assert (await plant.attempt(attempt_id)).status == "waiting"


@pytest.mark.long
async def test_a_waiting_attempt_whose_commit_is_left_behind_is_superseded(plant: Plant) -> None:
    attempt_id = await asking(plant)
    await plant.github.push(NAME, "main", {"calc.py": "def add(a, b):\n    return a + b\n"})
    assert await plant.store.reply(attempt_id, approved=True) is None
    await heal(attempt_id, plant.deps)
    assert (await plant.attempt(attempt_id)).outcome is Outcome.SUPERSEDED
    assert not plant.github.pull_requests(NAME)
