"""`selfheal doctor` as a person or a script sees it.

Exit codes: 0 nothing failed (warnings are allowed), 1 something did, 2 the settings are wrong.
"""

from __future__ import annotations

import json as jsonlib
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import asdict, replace

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from app.cli import terminal
from app.cli.doctor.checks import Check
from app.cli.terminal import plain
from app.clock import SystemClock
from app.doctor.examine import examine
from app.redaction import HIDDEN, SHORTEST
from app.settings import Settings, SettingsError

OK, NOT_OK, WRONG = 0, 1, 2
_SIGNS = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "failed": ("✗", "bold red"), "skipped": ("-", "dim")}
_NAMES = 34  # columns


async def run(settings: Settings, env_file: str | None, *, json: bool) -> int:
    """Look at everything and tell it; the exit code."""
    began = time.monotonic()
    async with aclosing(_without_secrets(examine(settings, SystemClock(), env_file), settings.secrets)) as checks:
        told = [check async for check in checks] if json else await _shown(checks)
    return _end(told, time.monotonic() - began, json=json)


def wrong(error: SettingsError, *, json: bool) -> int:
    """The settings cannot even be read: each wrong one is told, and nothing else can be looked at; the exit code."""
    fix = "the README lists every setting with its values"
    told = [Check("settings", "values", "failed", line, fix) for line in str(error).splitlines()]
    if not json:
        screen = _Screen(terminal.console())
        for check in told:
            screen.tell(check)
    _end(told, 0.0, json=json)
    return WRONG


async def _shown(checks: AsyncIterator[Check]) -> list[Check]:
    screen, told = _Screen(terminal.console()), []
    with screen.console.status("looking …"):
        async for check in checks:
            screen.tell(check)
            told.append(check)
    return told


async def _without_secrets(checks: AsyncIterator[Check], secrets: tuple[str, ...]) -> AsyncGenerator[Check, None]:
    """What drivers and servers say may repeat a secret. Only the exact ones: our own words name settings like `…_KEY:`."""
    async for check in checks:
        seen, fix = check.seen, check.fix
        for secret in (each for each in secrets if len(each) >= SHORTEST):
            seen, fix = seen.replace(secret, HIDDEN), fix.replace(secret, HIDDEN)
        yield replace(check, seen=seen, fix=fix)


class _Screen:
    """One line a check below the name of its area, and the way out below what is wrong."""

    def __init__(self, console: Console) -> None:
        self.console, self._area = console, ""

    def tell(self, check: Check) -> None:
        if check.area != self._area:
            self._area = check.area
            self.console.print(Text(f"\n{check.area}", style="bold"))
        sign, style = _SIGNS[check.status]
        line = Text.assemble((f"{sign} ", style), f"{check.name:{_NAMES}} " if len(check.name) <= _NAMES else f"{check.name} ")
        line.append(plain(check.seen, style if check.status in ("warning", "failed") else ""))
        self.console.print(Padding(line, (0, 0, 0, 2), expand=False))
        if check.fix and check.status in ("warning", "failed"):
            self.console.print(Padding(plain(f"→ {check.fix}"), (0, 0, 0, 6), expand=False))


def _end(told: list[Check], seconds: float, *, json: bool) -> int:
    counts = {status: sum(check.status == status for check in told) for status in _SIGNS}
    if json:
        found = {
            "ok": not counts["failed"],
            "seconds": round(seconds, 2),
            "counts": counts,
            "checks": [asdict(c) for c in told],
        }
        jsonlib.dump(found, sys.stdout, indent=2)
        sys.stdout.write("\n")
    else:
        words = f"\n{counts['ok']} fine, {counts['warning']} to think about, {counts['failed']} failed, in {seconds:.1f} s"
        terminal.console().print(Text(words, style="bold red" if counts["failed"] else "bold green"))
    return NOT_OK if counts["failed"] else OK
