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

from agent import words
from agent.blobs import MemoryBlobs
from agent.ci.configuration import NO_CONFIGURATION, Configuration, Problem, read_configuration
from agent.ci.configuration import PATH as CONFIGURATION
from agent.edits import diff
from agent.events import AnyEvent, Degraded, Ended, Progress
from agent.task import NoRepair, Outcome, ReflectionLog, Repair
from app import checkout, terminal
from app.assembly import budget_of, limits_of, models_of
from app.endings import ENDINGS
from app.engine import Case, Engine, without_a_run
from app.proof import headline, sureness
from app.retelling import spent
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
        if not event.text or isinstance(event, Progress | Ended):
            return
        line = plain(f"{time.monotonic() - self.started:6.1f} s  {event.text}", "yellow" if isinstance(event, Degraded) else "")
        self.console.print(line, soft_wrap=not self.console.is_terminal)


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
        except (checkout.CheckoutChanged, checkout.CheckoutUnwritable) as error:
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
    try:
        # Each waits for programs, answers or imports of its own.
        sandboxes, models, memory = await asyncio.gather(
            _sandboxes(settings, screen),
            models_of(settings),
            asyncio.to_thread(importlib.import_module, "langgraph.checkpoint.memory"),
        )
        engine = Engine(
            sandboxes=sandboxes,
            models=models,
            checkpointer=memory.InMemorySaver(),
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
    try:
        text = file.read_text("utf-8", "replace")
    except OSError as error:
        return without_a_run(Outcome.REFUSED, f"{CONFIGURATION} cannot be read: {error.strerror}.", "Make it readable.")
    configuration = read_configuration(text)
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
    """What a person wants to know, in the order in which they want to know it; `shown` says whether the patch is part of it."""
    console.print()
    if isinstance(result, NoRepair):
        _show_no_repair(console, result)
        return
    _say(console, "Healed", headline(result), "bold green")
    _say(console, "Cause", result.diagnosis.cause)
    _say(console, "Sure", f"{sureness(result)}.")
    console.print()
    if shown:
        console.print(Syntax(plain(diff(result.edits)).plain, "diff", background_color="default"))
    console.print(_evidence(result))
    console.print(plain(f"{result.evidence.environment}. Cost: {spent(result.usage)}.", "dim"))
    _show_tried(console, result.log)
    console.print()
    if problem:
        _say(console, "Problem", problem, "bold red")
    elif applied:
        _say(console, "Done", "The repair is written into the checkout.", "bold")
    else:
        _say(console, "Next", "Nothing was written; run again with --apply to write it.", "bold")


def _show_no_repair(console: Console, result: NoRepair) -> None:
    log = result.log
    _say(console, "Not healed", f"{ENDINGS[result.outcome].sentence} ({result.outcome})", "bold yellow")
    _say(console, "Why", result.reason)
    if log.diagnosis is not None:
        _say(console, "Diagnosis", log.diagnosis.cause)
    _show_tried(console, log)
    for note in log.notes:
        _say(console, "Note", note, "dim")
    if result.usage.calls:
        _say(console, "Cost", f"{spent(result.usage)}.", "dim")
    _say(console, "Next", result.next_step or ENDINGS[result.outcome].next_step, "bold")


def _show_tried(console: Console, log: ReflectionLog) -> None:
    """The changes that failed, one line each."""
    for iteration in log.iterations:
        if iteration.result != "verified":
            _say(console, "Tried", f"{iteration.title}: {iteration.result}", "dim")


def _say(console: Console, label: str, text: str, style: str = "") -> None:
    """A label and its text, which wraps beside it. Both are plain: nothing in them is markup."""
    if not console.is_terminal:
        console.print(plain(f"{label}: {text}", style), soft_wrap=True)
        return
    table = Table.grid(padding=(0, 1))
    table.add_column(width=10, justify="right", style="dim")
    table.add_column(overflow="fold")
    table.add_row(label, plain(text, style))
    console.print(table)


def _evidence(result: Repair) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2))
    for column in ("check", "before", "with the change", "change taken back"):
        table.add_column(column)
    for check in result.evidence.checks:
        table.add_row(
            plain(check.check),
            plain(f"{check.base_red} red, {check.base_green} green, {words.took(check.base_seconds)}", "red"),
            plain(f"{check.with_red} red, {check.with_green} green, {words.took(check.with_seconds)}", "green"),
            plain(f"{check.without_red} of {len(check.target)} red, {words.took(check.without_seconds)}", "red"),
        )
    return table
