"""Looks at everything side by side, and tells the checks area by area, as soon as each is known."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping

from app.cli.doctor import github, model, redis, sandbox, setup
from app.cli.doctor.checks import Area, Check
from app.clock import Clock
from app.doctor import database
from app.settings import Settings

SECONDS = 60.0  # of one area; each of its waits has a shorter deadline of its own


async def examine(settings: Settings, clock: Clock, env_file: str | None) -> AsyncIterator[Check]:
    """Every check, in the order of the areas. One that breaks is a failed check, and the others go on."""
    areas: Mapping[Area, AsyncIterator[Check]] = {
        "settings": setup.look(settings, env_file),
        "database": database.look(settings),
        "redis": redis.look(settings),
        "github": github.look(settings, clock),
        "model": model.look(settings),
        "sandbox": sandbox.look(settings),
    }
    told: dict[Area, asyncio.Queue[Check | None]] = {area: asyncio.Queue() for area in areas}
    looking = [asyncio.create_task(_fill(area, checks, told[area]), name=area) for area, checks in areas.items()]
    try:
        for queue in told.values():
            while (check := await queue.get()) is not None:
                yield check
    finally:
        for task in looking:
            task.cancel()
        await asyncio.gather(*looking, return_exceptions=True)


async def _fill(area: Area, checks: AsyncIterator[Check], queue: asyncio.Queue[Check | None]) -> None:
    try:
        async with asyncio.timeout(SECONDS):
            async for check in checks:
                queue.put_nowait(check)
    except TimeoutError:
        queue.put_nowait(Check(area, "in time", "failed", f"this took longer than {SECONDS:.0f} s", "see what hangs there"))
    except Exception as error:  # noqa: BLE001 - a look that breaks is told like anything else that does not work
        queue.put_nowait(
            Check(area, "look", "failed", f"{type(error).__name__}: {error}", "please report it: this is a fault of ours")
        )
    finally:
        queue.put_nowait(None)
