"""Runs the checks of all areas concurrently."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping

from app.cli.doctor import database, github, model, redis, sandbox, setup
from app.cli.doctor.checks import Area, Check
from app.clock import Clock
from app.settings import Settings

SECONDS = 60.0  # limit of one area; each wait in it has a shorter deadline


async def run_all_checks(settings: Settings, clock: Clock, env_file: str | None) -> AsyncIterator[Check]:
    """Yield every check as soon as it is known, area by area. An exception in one area becomes a failed check."""
    areas: Mapping[Area, AsyncIterator[Check]] = {
        "settings": setup.run_checks(settings, env_file),
        "database": database.run_checks(settings),
        "redis": redis.run_checks(settings),
        "github": github.run_checks(settings, clock),
        "model": model.run_checks(settings),
        "sandbox": sandbox.run_checks(settings),
    }
    queues: dict[Area, asyncio.Queue[Check | None]] = {area: asyncio.Queue() for area in areas}
    tasks = [asyncio.create_task(_fill(area, checks, queues[area]), name=area) for area, checks in areas.items()]
    try:
        for queue in queues.values():
            while (check := await queue.get()) is not None:
                yield check
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _fill(area: Area, checks: AsyncIterator[Check], queue: asyncio.Queue[Check | None]) -> None:
    try:
        async with asyncio.timeout(SECONDS):
            async for check in checks:
                queue.put_nowait(check)
    except TimeoutError:
        queue.put_nowait(Check(area, "time limit", "failed", f"took longer than {SECONDS:.0f} s", "find out what hangs"))
    except Exception as error:  # noqa: BLE001 - any exception becomes a failed check
        queue.put_nowait(
            Check(area, "check", "failed", f"{type(error).__name__}: {error}", "please report this bug in Selfheal")
        )
    finally:
        queue.put_nowait(None)
