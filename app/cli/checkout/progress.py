"""How commands that heal or reproduce a checkout show what they do, line by line. What came of it shows `showing`."""

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

QUIET = 30.0  # seconds without a line, after which one says what is going on
BRIEF = 2.0  # seconds that nobody has to be told of


@dataclass(slots=True)
class Screen:
    """What a person sees while it works: one line an event, and what is going on right now."""

    console: Console
    started: float
    doing: str = ""  # the step that was begun last
    since: float = 0.0  # of `time.monotonic()`: when something was told last

    @asynccontextmanager
    async def working(self, on: str) -> AsyncIterator[None]:
        """Until the end of the block, show what is going on and for how long: what hangs is not silent."""
        self.doing, self.since = on, time.monotonic()
        async with AsyncExitStack() as closing:
            status = closing.enter_context(self.console.status(plain(f"{on} …"))) if self.console.is_terminal else None
            beating = asyncio.create_task(self._beat(status))
            closing.callback(beating.cancel)
            yield

    async def _beat(self, status: Status | None) -> None:
        """On a terminal its status line counts; elsewhere a line now and then says that it goes on."""
        told = 0.0
        while True:
            await asyncio.sleep(min(1.0, QUIET))
            now = time.monotonic()
            going_on = f"{self.doing}, {now - self.since:.0f} s"
            if status is not None:
                if now - self.since >= BRIEF:
                    status.update(plain(f"{going_on} …"))
            elif now - max(self.since, told) >= QUIET:
                told = now
                self._say(f"still at it: {going_on}")

    def _say(self, text: str, style: str = "") -> None:
        line = plain(f"{time.monotonic() - self.started:6.1f} s  {text}", style)
        self.console.print(line, soft_wrap=not self.console.is_terminal)

    async def emit(self, event: AnyEvent) -> None:
        if isinstance(event, StepStarted):
            self.doing = event.text
        self.since = time.monotonic()
        if not event.text or isinstance(event, Ended):
            return
        self._say(event.text, "yellow" if isinstance(event, Degraded) else "")
