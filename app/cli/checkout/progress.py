"""Progress of `selfheal fix` and `selfheal reproduce`, line by line."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Console

from agent.contract.events import AnyEvent, Degraded, Ended, StepStarted
from app.cli.terminal import plain

if TYPE_CHECKING:
    from rich.status import Status

QUIET = 30.0  # seconds without output after which a line reports the current step
BRIEF = 2.0  # seconds a step may take before the status line shows its duration


@dataclass(slots=True)
class Screen:
    """Prints one line per event, and shows the current step."""

    console: Console
    started: float
    doing: str = ""  # the current step
    since: float = 0.0  # `time.monotonic()` of the last event

    @asynccontextmanager
    async def working(self, on: str) -> AsyncIterator[None]:
        """Show the current step and its duration during the block, so that a hanging step is visible."""
        self.doing, self.since = on, time.monotonic()
        async with AsyncExitStack() as closing:
            status = closing.enter_context(self.console.status(plain(f"{on} …"))) if self.console.is_terminal else None
            heartbeat = asyncio.create_task(self._beat(status))
            closing.callback(heartbeat.cancel)
            yield

    async def _beat(self, status: Status | None) -> None:
        """Update the status line of a terminal; elsewhere print a line after `QUIET` seconds without one."""
        printed = 0.0
        while True:
            await asyncio.sleep(min(1.0, QUIET))
            now = time.monotonic()
            current = f"{self.doing}, {now - self.since:.0f} s"
            if status is not None:
                if now - self.since >= BRIEF:
                    status.update(plain(f"{current} …"))
            elif now - max(self.since, printed) >= QUIET:
                printed = now
                self._print(f"still running: {current}")

    def _print(self, text: str, style: str = "") -> None:
        line = plain(f"{time.monotonic() - self.started:6.1f} s  {text}", style)
        self.console.print(line, soft_wrap=not self.console.is_terminal)

    async def emit(self, event: AnyEvent) -> None:
        if isinstance(event, StepStarted):
            self.doing = event.text
        self.since = time.monotonic()
        if not event.text or isinstance(event, Ended):
            return
        self._print(event.text, "yellow" if isinstance(event, Degraded) else "")
