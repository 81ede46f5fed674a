"""`selfheal fix`: heal a local checkout, show the patch and what proves it.

Progress goes to standard error, the result to standard output; where that is piped, it is the patch alone, so that
`selfheal fix . | git apply` works, and everything else is said on standard error. The checkout is read, never written, unless
`apply` is set.
"""

from __future__ import annotations

import asyncio
import importlib
import json as jsonlib
import sys
import time
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from platformdirs import user_cache_path
from rich.console import Console
from rich.syntax import Syntax
from rich.table import Table

from agent.blobs import MemoryBlobs
from agent.ci.configuration import NO_CONFIGURATION, Configuration, Problem, read_configuration
from agent.ci.configuration import PATH as CONFIGURATION
from agent.edits import diff
from agent.events import AnyEvent, Degraded, Ended, Progress, StepDone
from agent.reflection import to_markdown
from agent.task import NoRepair, Outcome, Repair
from app import checkout, terminal
from app.assembly import budget_of, limits_of, models_of
from app.engine import Case, Engine, without_a_run
from app.settings import Settings
from app.terminal import plain
from sandbox.base import SandboxError, Sandboxes, SandboxUnavailable
from sandbox.choose import open_sandboxes


@dataclass(slots=True)
class Screen:
    """What a person sees while it works: one line an event, and what is going on right now."""

    console: Console
    started: float

    async def emit(self, event: AnyEvent) -> None:
        if isinstance(event, Progress | StepDone | Ended):
            return
        style = "yellow" if isinstance(event, Degraded) else ""
        self.console.print(plain(f"{time.monotonic() - self.started:6.1f} s  {event.text}", style))


async def run(root: Path, settings: Settings, *, test: str | None, apply: bool, json: bool) -> bool:
    """Heal the checkout at `root`; True when a verified repair was found (and, with `apply`, written)."""
    progress = terminal.console(stderr=True)
    screen = Screen(progress, time.monotonic())
    async with AsyncExitStack() as stack:
        if progress.is_terminal:
            stack.enter_context(progress.status("healing …"))
        result = await _heal(root, settings, test, screen)
    applied, problem = False, None
    if isinstance(result, Repair) and apply:
        try:
            await checkout.apply(root, result.edits)
            applied = True
        except checkout.CheckoutChanged as error:
            problem = str(error)
    if json:
        print(jsonlib.dumps(_as_json(result, applied, problem), indent=2))  # noqa: T201 - the command's answer
    elif sys.stdout.isatty():
        _show(terminal.console(), result, applied, problem, shown=True)
    else:
        if isinstance(result, Repair):
            # As bytes: line ends and characters must stay those of the files, whatever the terminal's language.
            sys.stdout.buffer.write(diff(result.edits).encode())
        _show(progress, result, applied, problem, shown=False)
    return isinstance(result, Repair) and problem is None


async def _heal(root: Path, settings: Settings, test: str | None, screen: Screen) -> Repair | NoRepair:
    configuration = _own_configuration(root)
    if isinstance(configuration, NoRepair):
        return configuration
    loading = asyncio.create_task(asyncio.to_thread(importlib.import_module, "langgraph.checkpoint.memory"))
    try:
        engine = Engine(
            sandboxes=await _sandboxes(settings, screen),
            models=await models_of(settings),
            checkpointer=(await loading).InMemorySaver(),
            budget=budget_of(settings),
            limits=limits_of(settings),
        )
        case = Case(id=uuid4().hex, label=root.name, archive=checkout.packed(root), configuration=configuration, command=test)
        return await engine.heal(case, blobs=MemoryBlobs(), emit=screen.emit)
    except checkout.CheckoutUnreadable as error:
        return without_a_run(Outcome.REFUSED, f"{error}.", "Make it readable, or let git ignore it, and run again.")
    except SandboxError as error:
        return without_a_run(
            Outcome.INFRASTRUCTURE, f"The sandbox failed: {error}.", "Try again; if it stays, look at the sandbox's settings."
        )


async def _sandboxes(settings: Settings, screen: Screen) -> Sandboxes:
    """The configured sandbox; without bubblewrap a plain subprocess, which is enough for the person's own code.

    Kept in the person's cache folder: the checkout, which may be the current folder, stays as it is.
    """
    folder = user_cache_path("selfheal")
    hosts = settings.package_index_hosts
    # Whoever runs their own checkout's tests vouches for its code.
    sandboxes = await open_sandboxes(settings.sandbox, folder, trusted=True, index_hosts=hosts)
    if settings.sandbox != "auto":
        return sandboxes
    try:
        async with sandboxes.open("probe"):
            return sandboxes
    except SandboxUnavailable as error:
        why = f"{error.reason}; until then your checkout runs as a plain process, with limits but without isolation"
        await screen.emit(Degraded(text=why, step="sandbox", why=why))
        return await open_sandboxes("process", folder, trusted=True, index_hosts=hosts)


def _own_configuration(root: Path) -> Configuration | NoRepair:
    file = root / CONFIGURATION
    if not file.is_file():
        return NO_CONFIGURATION
    configuration = read_configuration(file.read_text("utf-8", "replace"))
    if isinstance(configuration, Problem):
        return without_a_run(
            Outcome.REFUSED, f"{CONFIGURATION} cannot be followed. {configuration.sentence}", "Mend it and run again."
        )
    return configuration


def _as_json(result: Repair | NoRepair, applied: bool, problem: str | None) -> dict[str, Any]:
    log = asdict(result.log)
    usage = asdict(result.usage)
    if isinstance(result, NoRepair):
        return {
            "outcome": result.outcome.value,
            "reason": result.reason,
            "next_step": result.next_step,
            "usage": usage,
            "log": log,
        }
    return {
        "outcome": Outcome.HEALED.value,
        "title": result.title,
        "diff": diff(result.edits),
        "files": [change.path for change in result.edits],
        "diagnosis": asdict(result.diagnosis),
        "evidence": asdict(result.evidence),
        "confidence": result.confidence,
        "alternatives": result.alternatives,
        "applied": applied,
        "problem": problem,
        "usage": usage,
        "log": log,
    }


def _show(console: Console, result: Repair | NoRepair, applied: bool, problem: str | None, *, shown: bool) -> None:
    """Tell a person; `shown` says whether the patch is part of it."""
    say = console.print
    if isinstance(result, NoRepair):
        say(plain(f"\nNot healed ({result.outcome}): {result.reason}", "bold"))
        say(plain(f"Next: {result.next_step}\n"))
        say(plain(to_markdown(result.log)))
        return
    say(plain(f"\nHealed: {result.title}", "bold green"))
    say(plain(f"Cause: {result.diagnosis.cause}\n"))
    if shown:
        say(Syntax(plain(diff(result.edits)).plain, "diff", background_color="default"))
    say(_evidence(result))
    say(plain(f"{result.evidence.environment}; confidence {result.confidence:.0%}\n"))
    say(plain(to_markdown(result.log)))
    if problem:
        say(plain(problem, "bold red"))
    elif applied:
        say(plain("The repair is written into the checkout.", "bold"))
    else:
        say(plain("Nothing was written; run again with --apply to write it.", "bold"))


def _evidence(result: Repair) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in ("check", "red at the base", "green with the patch", "red again without it"):
        table.add_column(column)
    for check in result.evidence.checks:
        table.add_row(
            plain(check.check),
            f"{check.base_red} red, {check.base_green} green in {check.base_seconds:.1f} s",
            f"{check.with_red} red, {check.with_green} green in {check.with_seconds:.1f} s",
            f"{check.without_red} of {len(check.target)} red in {check.without_seconds:.1f} s",
        )
    return table
