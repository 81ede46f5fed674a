"""SIGKILL for the worker, at a point of the story."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Literal

from tests.chaos.stage import PATIENCE, Missed, Stage


async def when_claimed(stage: Stage, name: str) -> None:
    repository = await stage.repository(name)
    await stage.turns_red(repository)
    await stage.until("the attempt is claimed", partial(stage.is_claimed, repository))
    await stage.kill_worker(repository)


async def in_step(step: str, stage: Stage, name: str) -> None:
    repository = await stage.repository(name)
    await stage.turns_red(repository)
    await stage.until(f"the attempt begins to {step}", partial(stage.has_begun, repository, step))
    await stage.kill_worker(repository)


async def at_request(
    method: str, path: str, when: Literal["before", "after"], stage: Stage, name: str, after: tuple[str, str] | None = None
) -> None:
    """`after`: only once this other request was carried out."""
    repository = await stage.asked(name)
    if after is not None:
        await stage.seen(repository, *after)
    await stage.github.settled()
    done = stage.kill_at(repository, method, path, when)
    try:
        async with asyncio.timeout(PATIENCE):
            await done.wait()
    except TimeoutError:
        raise Missed(f"there was no {method} {path}") from None
