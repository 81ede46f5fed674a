"""The engine for a local checkout, and the screen that shows its progress; used by `fix`, `reproduce` and `verify`.

Users who run their own checkout's tests trust its code, so a plain process is used if no isolating sandbox is available.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from uuid import uuid4

from platformdirs import user_cache_path
from rich.console import Console

from agent.case import Case, without_a_run
from agent.checks.runner import WATCH
from agent.ci.job.selection import RequestedJob
from agent.ci.project.configuration import NO_CONFIGURATION, Configuration, ConfigurationProblem, read_configuration
from agent.ci.project.configuration import PATH as CONFIGURATION
from agent.contract.events import AnyEvent, Degraded, Ended, StepStarted
from agent.contract.outcome import NoRepair, Outcome
from agent.engine import Engine
from app.assembly import budget_of, extensions_of, limits_of, models_of, policy_of, sandboxes_in
from app.cli.checkout.checkout import CheckoutUnreadable, commit, list_files, packed
from app.cli.checkout.last_good import last_good
from app.cli.checkout.workflow_jobs import JobSelection
from app.cli.terminal import plain
from app.redaction import redact
from app.settings import Settings
from sandbox.base import Isolation, Limits, Sandbox, SandboxError, Sandboxes, SandboxUnavailable

if TYPE_CHECKING:
    from rich.status import Status

T = TypeVar("T")
QUIET, LONGEST_QUIET = 10.0, 60.0  # seconds without output until a line reports the current step; they double up to the latter
BRIEF = 2.0  # seconds after which the status line shows a step's duration


@dataclass(slots=True)
class Screen:
    """Prints one line per event, and shows the current step."""

    console: Console
    started: float
    doing: str = ""  # the current step
    test: str = ""  # the test that it waits for, if that takes long
    since: float = 0.0  # `time.monotonic()` of the last event
    status: Status | None = None  # the line at the bottom of a terminal
    steps: list[tuple[str, float]] = field(default_factory=list)  # each with `time.monotonic()` of its start

    @asynccontextmanager
    async def working(self, on: str) -> AsyncIterator[None]:
        """Show the current step and its duration during the block, so that a hanging step is visible."""
        self.doing, self.since = on, time.monotonic()
        async with AsyncExitStack() as closing:
            closing.callback(WATCH.reset, WATCH.set(self._watch))
            status = closing.enter_context(self.console.status(plain(f"{on} …"))) if self.console.is_terminal else None
            self.status = status
            heartbeat = asyncio.create_task(self._beat(status))
            closing.callback(heartbeat.cancel)
            yield

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Without the status line, so that the user can be asked something."""
        if self.status is not None:
            self.status.stop()
        try:
            yield
        finally:
            if self.status is not None:
                self.status.start()

    async def _beat(self, status: Status | None) -> None:
        """Update the status line of a terminal; without a terminal, print a line after `QUIET` seconds without output."""
        last, pause = 0.0, QUIET
        while True:
            await asyncio.sleep(min(1.0, QUIET))
            now = time.monotonic()
            test = f", in {self.test}" if self.test else ""
            current = f"{self.doing}, {now - self.since:.0f} s{test}"
            if status is not None:
                if now - self.since >= BRIEF:
                    status.update(plain(f"{current} …"))
                continue
            if last < self.since:
                pause = QUIET
            if now - max(self.since, last) >= pause:
                last, pause = now, min(2 * pause, LONGEST_QUIET)
                self.say(f"still running: {current}")

    def say(self, text: str, style: str = "") -> None:
        """Print one line, unless it is empty."""
        if not text:
            return
        line = plain(f"{time.monotonic() - self.started:6.1f} s  {redact(text)}", style)
        self.console.print(line, soft_wrap=not self.console.is_terminal)

    def _watch(self, test: str) -> None:
        self.test = test

    async def emit(self, event: AnyEvent) -> None:
        if isinstance(event, StepStarted):
            self.steps.append((event.step, time.monotonic()))
            self.doing = event.text or self.doing
        self.since, self.test = time.monotonic(), ""
        if self.status is not None:
            self.status.update(plain(f"{self.doing} …"))  # not the seconds of a step that has ended
        if isinstance(event, Ended):
            return
        self.say(event.text, "yellow" if isinstance(event, Degraded) else "")

    def timings(self, ended: float) -> dict[str, float]:
        """The seconds of each step until `ended` (of `time.monotonic()`), in order; "start" is what came before the first."""
        starts = [("start", self.started), *self.steps]
        seconds = dict.fromkeys((name for name, _ in starts), 0.0)
        for (name, began), following in zip(starts, [*(began for _, began in self.steps), ended], strict=True):
            seconds[name] += following - began
        return seconds


async def engine(settings: Settings, screen: Screen, *, trusted: bool = True) -> Engine:
    """An engine without persistence. `trusted`: the user trusts the code that will run. Raises `SandboxUnavailable`."""
    # Concurrently: each of these waits for programs, network or imports.
    sandboxes, models, extensions = await asyncio.gather(
        _sandboxes(settings, screen, trusted=trusted),
        models_of(settings),
        extensions_of(),
    )
    return Engine(
        sandboxes=sandboxes,
        models=models,
        checkpointer=None,
        budget=budget_of(settings),
        limits=limits_of(settings),
        policy=replace(policy_of(settings), autonomy="full"),
        extensions=extensions,
    )


async def on_checkout(
    root: Path, job: RequestedJob | None, selection: JobSelection, work: Callable[[Case], Awaitable[T]]
) -> T | NoRepair:
    """The result of `work` on the checkout at `root`, or the reason why the work cannot be done. Raises `NoSuchRevision`."""
    configuration = _configuration(root)
    if isinstance(configuration, NoRepair):
        return configuration
    files = await list_files(root)
    known = await last_good(root, files, selection.good)
    case = Case(
        id=uuid4().hex,
        label=root.name,
        archive=packed(root, files),
        notes=(*files.notes, *known.notes),
        jobs=() if job is None else (job,),
        configuration=configuration,
        command=selection.test,
        good=known.good,
        history=known.history,
        tag=(await commit(root)).tag if job is None else "",
    )
    try:
        return await work(case)
    except CheckoutUnreadable as error:
        return without_a_run(Outcome.REFUSED, f"{error}.", "Fix this, or let git ignore the file, and run the command again.")
    except SandboxError as error:
        what_next = "Try again. If it fails again, check the sandbox's settings."
        return without_a_run(Outcome.INFRASTRUCTURE, f"The sandbox failed: {error}.", what_next)


def _configuration(root: Path) -> Configuration | NoRepair:
    file = root / CONFIGURATION
    if not file.is_file():
        return NO_CONFIGURATION
    try:
        text = file.read_text("utf-8", "replace")
    except OSError as error:
        return without_a_run(Outcome.REFUSED, f"{CONFIGURATION} cannot be read: {error.strerror}.", "Make it readable.")
    found = read_configuration(text)
    if isinstance(found, ConfigurationProblem):
        return without_a_run(Outcome.REFUSED, f"{CONFIGURATION} is invalid. {found.sentence}", "Fix it, then run again.")
    return found


async def _sandboxes(settings: Settings, screen: Screen, *, trusted: bool) -> Sandboxes:
    """The configured sandbox; with `auto`, a plain process if no isolation is available and the code is trusted.

    Files are kept in the user's cache folder, not in the checkout.
    """
    folder = user_cache_path("selfheal")
    sandboxes = await sandboxes_in(folder, settings, trusted=trusted)
    if settings.sandbox != "auto" or not trusted:
        return sandboxes

    async def plain(error: SandboxUnavailable) -> Sandboxes:
        why = f"{error.reason}; the checkout's code runs as a plain process, with limits but without isolation"
        await screen.emit(Degraded(text=why, step="sandbox", why=why))
        return await sandboxes_in(folder, settings.model_copy(update={"sandbox": "process"}), trusted=True)

    return _WithFallback(sandboxes, plain)


@dataclass(frozen=True, slots=True)
class _WithFallback:
    """Opens `first`, or the result of `second` if `first` is unavailable."""

    first: Sandboxes
    second: Callable[[SandboxUnavailable], Awaitable[Sandboxes]]

    @property
    def isolation(self) -> Isolation:
        return self.first.isolation

    @asynccontextmanager
    async def open(self, label: str, limits: Limits | None = None) -> AsyncIterator[Sandbox]:
        async with AsyncExitStack() as closing:
            try:
                sandbox = await closing.enter_async_context(self.first.open(label, limits))
            except SandboxUnavailable as error:
                sandbox = await closing.enter_async_context((await self.second(error)).open(label, limits))
            yield sandbox
