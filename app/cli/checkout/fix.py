"""`selfheal fix`: repair a local checkout.

Progress goes to standard error, the result to standard output. If standard output is a pipe, it receives only the patch, so
that `selfheal fix . | git apply` works. The checkout is never written unless `apply` is set.
"""

from __future__ import annotations

import json as jsonlib
import math
import sys
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from agent.case import Case
from agent.contract import words
from agent.contract.blobs import MemoryBlobs
from agent.contract.last_good import Culprit
from agent.contract.outcome import NoRepair, Outcome, ReflectionLog, Repair
from agent.contract.proposal import is_model
from agent.contract.question import Waiting
from agent.diagnosis.evidence import BY_VERDICTS
from agent.edits.changes import diff
from agent.report import culprits
from app.assembly import check_models
from app.cli import terminal
from app.cli.checkout import checkout, local_engine
from app.cli.checkout.local_engine import Screen
from app.cli.checkout.workflow_jobs import JobSelection, job_of
from app.cli.terminal import plain
from app.publish.outcomes import NOTHING_TO_HEAL, OUTCOME_TEXTS, said
from app.publish.proof import headline, spent, sureness
from app.settings import Settings


@dataclass(frozen=True, slots=True)
class Allowed:
    """What the user allows beyond the repository's configuration."""

    flaky: bool = False  # repairs of intermittent failures
    reversals: bool = False  # repairs that take back the last change


async def run(path: Path, settings: Settings, *, selection: JobSelection, allowed: Allowed, apply: bool, json: bool) -> bool:
    """Repair the checkout at `path`; True if a verified repair was found (and, with `apply`, written).

    Raises `NotACheckout`, `NoSuchJob`, `NoSuchRevision`, `SettingsError`.
    """
    root, note = await checkout.root_of(path, "fix")
    await check_models(settings)
    job = await job_of(root, selection)
    screen = Screen(terminal.console(stderr=True), time.monotonic())
    screen.say(note)

    async def heal(case: Case) -> Repair | NoRepair:
        engine = await local_engine.engine(settings, screen)
        # Nothing is published, so no approval is needed, whatever the repository's configuration says.
        reversals = allowed.reversals or case.configuration.allow_reversals
        update: dict[str, Any] = {"autonomy": None, "allow_reversals": reversals}
        if "min_confidence" in settings.model_fields_set:
            update["min_confidence"] = None
        case = replace(case, configuration=case.configuration.model_copy(update=update), heals_flakiness=allowed.flaky)
        result = await engine.heal(case, blobs=MemoryBlobs(), emit=screen.emit)
        assert not isinstance(result, Waiting), "no approval is requested, as nothing is published"
        return result

    async with screen.working("Repairing"):
        result = await local_engine.on_checkout(root, job, selection, heal)
    applied, problem = False, None
    if isinstance(result, Repair) and apply:
        try:
            await checkout.apply(root, result.edits)
            applied = True
        except checkout.CheckoutUnwritable as error:
            problem = str(error)
    show(screen, result, applied=applied, problem=problem, json=json)
    return isinstance(result, Repair) and problem is None


def show(screen: Screen, result: Repair | NoRepair, *, applied: bool, problem: str | None, json: bool) -> None:
    """Print the result to standard output. If that is a pipe, it receives only the patch; the rest goes to the screen.

    `applied`: whether the repair was written; `problem`: why it could not be written.
    """
    if json:
        print(jsonlib.dumps(_as_json(result, applied, problem), indent=2))  # noqa: T201 - the command's answer
    elif sys.stdout.isatty():
        _show(terminal.console(), result, applied, problem, shown=True)
    else:
        if isinstance(result, Repair):
            # As bytes, to keep the files' line endings and encoding whatever the locale is.
            sys.stdout.buffer.write(diff(result.edits).encode())
        _show(screen.console, result, applied, problem, shown=False)


def _as_json(result: Repair | NoRepair, applied: bool, problem: str | None) -> dict[str, Any]:
    """The same keys for every outcome; missing values are null."""
    repair = result if isinstance(result, Repair) else None
    ended = result if isinstance(result, NoRepair) else None
    diagnosis = result.log.diagnosis if repair is None else repair.diagnosis
    return {
        "outcome": (ended.outcome if ended else Outcome.HEALED).value,
        "reason": ended.reason if ended else None,
        "next_step": ended.next_step if ended else None,
        "title": repair.title if repair else None,
        "diff": diff(repair.edits) if repair else None,
        "files": [change.path for change in repair.edits] if repair else [],
        "diagnosis": asdict(diagnosis) if diagnosis else None,
        "culprit": _culprit(ended.culprit) if ended and ended.culprit else None,
        "evidence": asdict(repair.evidence) if repair else None,
        "confidence": repair.confidence if repair else None,
        "alternatives": repair.alternatives if repair else None,
        "partial": asdict(ended.partial) if ended and ended.partial else None,
        "suspect": _suspect(ended.suspects[0]) if ended and ended.suspects else None,
        "applied": applied,
        "problem": problem,
        "usage": asdict(result.usage),
        "log": asdict(result.log),
    }


def _culprit(culprit: Culprit) -> dict[str, Any]:
    """What broke the tests; `diff` is that part as the change made it."""
    return {
        "good": culprit.good,
        "by": culprit.by,
        "lines": culprit.lines,
        "of": culprit.of,
        "places": [
            {"path": p.path, "first_line": p.first_line, "last_line": p.last_line, "name": p.name} for p in culprit.places
        ],
        "diff": culprits.change(culprit),
        "breaks": None if culprit.breaks is None else list(culprit.breaks),
    }


def _suspect(suspect: Repair) -> dict[str, Any]:
    """A verified change that is too unsure to be the result."""
    return {
        "title": suspect.title,
        "diff": diff(suspect.edits),
        "confidence": suspect.confidence,
        "doubts": list(suspect.doubts),
        "choices": list(suspect.choices),
    }


def _show(console: Console, result: Repair | NoRepair, applied: bool, problem: str | None, *, shown: bool) -> None:
    """Print the result, most important facts first, and the patch if `shown`."""
    console.print()
    if isinstance(result, NoRepair):
        _show_no_repair(console, result)
        return
    say(console, "Healed", headline(result), "bold green")
    say(console, "Cause", result.diagnosis.cause)
    say(console, "Confidence", f"{sureness(result)}.")
    console.print()
    if shown:
        terminal.print_code(console, diff(result.edits), "diff")
    console.print(evidence_table(result))
    for note in result.evidence.approximated:
        say(console, "Unlike CI", note, "dim")
    console.print(plain(f"{result.evidence.environment}. Cost: {spent(result.usage)}.", "dim"))
    _show_tried(console, result.log)
    console.print()
    if problem:
        say(console, "Problem", problem, "bold red")
    elif applied:
        say(console, "Done", "The repair was written to the checkout.", "bold")
    else:
        say(console, "Next", "Nothing was written. Run again with --apply to write the repair.", "bold")


def _show_no_repair(console: Console, result: NoRepair) -> None:
    log = result.log
    label, sentence = "Not healed", said(result)
    if result.outcome is Outcome.NOT_REPRODUCED:
        label, sentence = "No repair", NOTHING_TO_HEAL
    say(console, label, f"{sentence} ({result.outcome})", "bold yellow")
    say(console, "Why", result.reason)
    if result.culprit is not None:
        say(console, "Broke it", "This part of the change, as it was made:")
        terminal.print_code(console, culprits.change(result.culprit), "diff")
    for suspect in result.suspects[:1]:
        say(console, "Suspect", headline(suspect))
        terminal.print_code(console, diff(suspect.edits), "diff")
        for doubt in suspect.doubts:
            say(console, "Doubt", f"{words.capitalized(doubt)}.")
        for choice in suspect.choices:
            say(console, "Or", f"{choice}, which passes too.")
    if (part := result.partial) is not None:
        say(console, "In part", f"{part.title.rstrip('.')}. {words.capitalized(part.result)}.")
        terminal.print_code(console, part.diff, "diff")
    if log.diagnosis is not None and (result.culprit is None or log.diagnosis.by != BY_VERDICTS):  # the reason says the rest
        say(console, "Diagnosis", log.diagnosis.cause)
    _show_tried(console, log)
    for note in log.notes:
        say(console, "Note", note, "dim")
    if result.usage.calls:
        say(console, "Cost", f"{spent(result.usage)}.", "dim")
    say(console, "Next", _next_step(result), "bold")


def _next_step(result: NoRepair) -> str:
    if result.suspects and result.culprit is None:
        least = math.floor(result.suspects[0].confidence * 100) / 100
        apply = f"run the command again with --min-confidence {least:g} --apply"
        return f"If the possible repair is right, {apply}. If not, a test that fails with it helps the next attempt."
    step = result.next_step or OUTCOME_TEXTS[result.outcome].next_step
    if result.outcome is not Outcome.GAVE_UP or result.culprit is not None:
        return step
    asked = any(is_model(cost.rung) and cost.tried for cost in result.log.rungs)
    return f"{step} {'A stronger model may get further.' if asked else 'With a model, Selfheal may get further.'}"


def _show_tried(console: Console, log: ReflectionLog) -> None:
    """Print the changes that failed, one line each."""
    for iteration in log.iterations:
        if iteration.result != "verified":
            say(console, "Tried", f"{iteration.title}: {iteration.result}", "dim")


def say(console: Console, label: str, text: str, style: str = "") -> None:
    """Print a label and its wrapped text, without interpreting either as markup."""
    if not console.is_terminal:
        console.print(plain(f"{label}: {text}", style), soft_wrap=True)
        return
    table = Table.grid(padding=(0, 1))
    table.add_column(width=10, justify="right", style="dim")
    table.add_column(overflow="fold")
    table.add_row(label, plain(text, style))
    console.print(table)


def evidence_table(result: Repair) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2))
    for column in ("check", "before", "with the patch", "patch reverted"):
        table.add_column(column)
    for check in result.evidence.checks:
        table.add_row(
            plain(check.check),
            plain(f"{check.base_red} failed, {check.base_green} passed, {words.took(check.base_seconds)}", "red"),
            plain(f"{check.with_red} failed, {check.with_green} passed, {words.took(check.with_seconds)}", "green"),
            plain(f"{check.without_red} of {len(check.target)} failed again, {words.took(check.without_seconds)}", "red"),
        )
    return table
