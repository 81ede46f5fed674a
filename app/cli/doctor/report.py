"""Runs the checks of `selfheal doctor`, all areas at once, and prints them as text or JSON.

Exit codes: 0 no check failed (there may be warnings), 1 a check failed, 2 the settings are invalid.
"""

from __future__ import annotations

import asyncio
import json as jsonlib
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import asdict, replace

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from app.cli import terminal
from app.cli.doctor import checks
from app.cli.doctor.checks import Area, Check
from app.cli.doctor.github import check_github
from app.cli.terminal import plain
from app.clock import Clock, SystemClock
from app.redaction import HIDDEN, SHORTEST
from app.settings import Settings, SettingsError

OK, NOT_OK, WRONG = 0, 1, 2
_SIGNS = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "failed": ("✗", "bold red"), "skipped": ("-", "dim")}
_NAMES = 34  # columns
AREA_SECONDS = 60.0  # limit of one area; each wait in it has a shorter deadline


async def run_all_checks(settings: Settings, clock: Clock, env_file: str | None) -> AsyncIterator[Check]:
    """Yield every check as soon as it is known, area by area. An exception in one area becomes a failed check."""
    areas: Mapping[Area, AsyncIterator[Check]] = {
        "settings": checks.check_settings(settings, env_file),
        "database": checks.check_database(settings),
        "redis": checks.check_redis(settings),
        "github": check_github(settings, clock),
        "model": checks.check_model(settings),
        "sandbox": checks.check_sandbox(settings),
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
        async with asyncio.timeout(AREA_SECONDS):
            async for check in checks:
                queue.put_nowait(check)
    except TimeoutError:
        queue.put_nowait(
            Check(
                area,
                "time limit",
                "failed",
                f"took longer than {AREA_SECONDS:.0f} s",
                "check the servers it asks, then run this again",
            )
        )
    except Exception as error:  # noqa: BLE001 - any exception becomes a failed check
        queue.put_nowait(
            Check(area, "check", "failed", f"{type(error).__name__}: {error}", "please report this bug in Selfheal")
        )
    finally:
        queue.put_nowait(None)


async def run(settings: Settings, env_file: str | None, *, json: bool) -> int:
    """Run and print all checks; returns the exit code."""
    started = time.monotonic()
    async with aclosing(_without_secrets(run_all_checks(settings, SystemClock(), env_file), settings.secrets)) as checks:
        done = [check async for check in checks] if json else await _shown(checks)
    return _end(done, time.monotonic() - started, json=json)


def report_invalid_settings(error: SettingsError, *, json: bool) -> int:
    """Print each invalid setting; nothing else can be checked. Returns the exit code."""
    fix = "docs/configuration.md lists every setting with its values"
    checks = [Check("settings", "values", "failed", line, fix) for line in str(error).splitlines()]
    if not json:
        screen = _Screen(terminal.console())
        for check in checks:
            screen.print(check)
    _end(checks, 0.0, json=json)
    return WRONG


async def _shown(checks: AsyncIterator[Check]) -> list[Check]:
    screen, done = _Screen(terminal.console()), []
    with screen.console.status("checking …"):
        async for check in checks:
            screen.print(check)
            done.append(check)
    return done


async def _without_secrets(checks: AsyncIterator[Check], secrets: tuple[str, ...]) -> AsyncGenerator[Check, None]:
    """Hide secrets that drivers and servers repeat. Exact matches only, as our own texts name settings like `…_KEY:`."""
    async for check in checks:
        seen, fix = check.seen, check.fix
        for secret in (each for each in secrets if len(each) >= SHORTEST):
            seen, fix = seen.replace(secret, HIDDEN), fix.replace(secret, HIDDEN)
        yield replace(check, seen=seen, fix=fix)


class _Screen:
    """One line per check below the name of its area, with the fix below a problem."""

    def __init__(self, console: Console) -> None:
        self.console, self._area = console, ""

    def print(self, check: Check) -> None:
        if check.area != self._area:
            self._area = check.area
            self.console.print(Text(f"\n{check.area}", style="bold"))
        sign, style = _SIGNS[check.status]
        line = Text.assemble((f"{sign} ", style), f"{check.name:{_NAMES}} " if len(check.name) <= _NAMES else f"{check.name} ")
        line.append(plain(check.seen, style if check.status in ("warning", "failed") else ""))
        self.console.print(Padding(line, (0, 0, 0, 2), expand=False))
        if check.fix and check.status in ("warning", "failed"):
            self.console.print(Padding(plain(f"→ {check.fix}"), (0, 0, 0, 6), expand=False))


def _end(checks: list[Check], seconds: float, *, json: bool) -> int:
    counts = {status: sum(check.status == status for check in checks) for status in _SIGNS}
    if json:
        found = {
            "ok": not counts["failed"],
            "seconds": round(seconds, 2),
            "counts": counts,
            "checks": [asdict(check) for check in checks],
        }
        jsonlib.dump(found, sys.stdout, indent=2)
        sys.stdout.write("\n")
    else:
        warnings = "1 warning" if counts["warning"] == 1 else f"{counts['warning']} warnings"
        totals = f"\n{counts['ok']} passed, {warnings}, {counts['failed']} failed in {seconds:.1f} s"
        terminal.console().print(Text(totals, style="bold red" if counts["failed"] else "bold green"))
    return NOT_OK if counts["failed"] else OK
