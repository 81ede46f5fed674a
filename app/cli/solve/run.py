"""`selfheal solve`: write code from a specification and show it.

Progress goes to standard error. Standard output gets the code alone if it is a pipe or with the profile `copy`.
"""

from __future__ import annotations

import asyncio
import json as jsonlib
import sys
import time
from contextlib import nullcontext
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any

import msgspec
from platformdirs import user_cache_path
from rich.console import Console

from agent.contract import words
from agent.contract.events import AnyEvent
from agent.contract.memory import ProcessMemory
from agent.contract.question import Autonomy, Question, Reply
from agent.engine import Engine
from agent.models.values import ModelError
from agent.solving.code import Files, together
from agent.solving.draft import Draft
from agent.solving.options import FIELDS
from agent.solving.run import reach
from agent.solving.solution import Options, Solution, Start, undesigned
from agent.solving.solve import solve
from agent.solving.specification import Specification
from app.assembly import budget_of, check_models, extensions_of, limits_of, models_of, policy_of, sandboxes_in
from app.cli import terminal
from app.cli.checkout.local_engine import Screen
from app.cli.solve import records
from app.cli.solve.lessons import FileMemory
from app.cli.solve.saving import save
from app.cli.solve.wish import Wish
from app.cli.terminal import plain
from app.publish.proof import spent
from app.redaction import redact, redact_values
from app.settings import Settings, SettingsError

AUTONOMY: dict[str, Autonomy] = {"full": "full", "review-repairs": "review_repairs", "review-all": "review_all"}
NO_MODEL = (
    "a model must write the code, and there is none: start Ollama and run `ollama pull qwen2.5-coder:7b`, name one with "
    "--model (such as anthropic/claude-sonnet-4-5), or try it with --model scripted"
)


async def run(
    spec: Specification,
    settings: Settings,
    wish: Wish,
    *,
    json: bool,
    start: Start | None = None,
    origin: tuple[str, int, str] = ("", 0, ""),
) -> bool:
    """True if the code passes its tests and the gate.

    `start` and `origin` (an id, a round and a hint) are of a run that is forked or replayed (round 0).

    Raises `BadSpecification`, `Declined`, `ModelError`, `SandboxError`, `SettingsError`.
    """
    await check_models(settings)
    screen = Screen(terminal.console(stderr=True), time.monotonic())
    engine = await _engine(settings)
    if engine.models is None:
        raise SettingsError(NO_MODEL)
    is_terminal = sys.stdin.isatty() and sys.stderr.isatty()
    is_shown = not (wish.code_only or wish.streams or json)

    async def confirm(draft: Draft) -> bool | None:
        with screen.paused():
            return await asyncio.to_thread(_confirmed, screen.console, draft, asks=is_terminal and not wish.yes)

    async def decide(question: Question) -> Reply:
        with screen.paused():
            return await asyncio.to_thread(_decided, screen.console, question)

    options = Options(
        **{name: getattr(wish, name) for name in FIELDS},
        confirm=confirm if is_shown and wish.design else None,
        autonomy=AUTONOMY[wish.autonomy],
        decide=decide,
        lessons=FileMemory() if wish.memory else ProcessMemory(),
    )
    recorder = records.begin(_record(spec, engine.models.name, settings, wish, origin))
    if recorder is None:
        screen.say("This run is not recorded: its folder cannot be written or locked.", "yellow")

    async def emit(event: AnyEvent) -> None:
        if recorder is not None:
            recorder.event(event)
        if wish.streams:
            _print_line({"event": redact_values(msgspec.to_builtins(event))})
        await screen.emit(event)

    if wish.streams:
        _print_line({"run": recorder.record.id if recorder is not None else None})
    keep = recorder.keep if recorder is not None else lambda _: None
    failure: ModelError | None = None
    try:
        async with screen.working("Writing"):
            with recorder.recording() if recorder is not None else nullcontext():
                found = await solve(spec, engine, emit=emit, options=options, start=start, keep=keep)
    except ModelError as error:  # without a design or a model, there is no code to show
        next_step = reach(engine.models) if error.is_outage else ""
        seconds = time.monotonic() - screen.started
        found = undesigned(spec, error, records.outcome_of(error), next_step=next_step, seconds=seconds)
        failure = ModelError(f"{str(error).rstrip('.')}. {next_step}") if next_step else error
    else:
        if recorder is not None:
            recorder.ended(found)
    unsaved: SettingsError | None = None
    if wish.out is not None:
        try:
            save(wish.out, _texts(found, with_tests=wish.show_tests))
        except SettingsError as error:  # raised when the code was shown
            unsaved, wish = error, replace(wish, out=None)
    if wish.streams or json:
        _answer(found, wish)
    elif failure is None:
        show(screen, found, wish)
    if (problem := failure or unsaved) is not None:
        raise problem
    return found.solved


def _answer(found: Solution, wish: Wish) -> None:
    """Print the result as JSON: a line of a stream, or the command's answer."""
    told = as_json(found, with_tests=wish.show_tests)
    if wish.streams:
        _print_line({"result": told})
    else:
        print(jsonlib.dumps(told, indent=2))  # noqa: T201 - the command's answer


def _record(spec: Specification, model: str, settings: Settings, wish: Wish, origin: tuple[str, int, str]) -> records.Record:
    budget = budget_of(settings)
    return records.Record(
        id=records.new_id(),
        started_at=datetime.now(UTC),
        spec=spec,
        model=model,
        options={name: value for name, value in asdict(wish).items() if name != "out"},
        iterations=budget.iterations,
        seconds=budget.seconds,
        tokens=budget.tokens,
        cost=budget.cost,
        forked_from=origin[0],
        from_iteration=origin[1],
        hint=origin[2],
    )


def _print_line(told: dict[str, Any]) -> None:
    sys.stdout.write(jsonlib.dumps(told) + "\n")
    sys.stdout.flush()


async def _engine(settings: Settings) -> Engine:
    """An engine without persistence. A model's code is never trusted, so there is no fallback to a plain process."""
    sandboxes, models, extensions = await asyncio.gather(
        sandboxes_in(user_cache_path("selfheal"), settings, trusted=settings.trust_code), models_of(settings), extensions_of()
    )
    policy = replace(policy_of(settings), autonomy="full")
    return Engine(sandboxes, models, None, budget_of(settings), limits_of(settings), policy, extensions)


def _confirmed(console: Console, draft: Draft, *, asks: bool) -> bool | None:
    """Show the design and ask; None if nobody is asked."""
    console.print()
    for path, text in draft.files.items():
        show_code(console, path, text)
    if not asks:
        return None
    console.print(plain("Is this what you mean? [Y/n] ", "bold"), end="")
    return sys.stdin.readline().strip().lower() in ("", "y", "yes")


def _decided(console: Console, question: Question) -> Reply:
    """Ask before a round."""
    text = question.text.replace("propose a patch", "write")
    console.print(plain(f"{text} [Y/n, or a hint] ", "bold"), end="")
    answer = sys.stdin.readline().strip()
    if answer.lower() in ("n", "no"):
        return Reply(False)
    return Reply(True, "" if answer.lower() in ("", "y", "yes") else answer)


def _texts(found: Solution, *, with_tests: bool) -> Files:
    """Code, tests and log."""
    log = jsonlib.dumps(as_json(found, with_tests=with_tests), indent=2)
    return {**found.answer, **(found.tests if with_tests else {}), "log.json": f"{log}\n"}


def as_json(found: Solution, *, with_tests: bool) -> dict[str, Any]:
    """The same keys for every result; missing values are null, and tests that are not wanted are left out."""
    return {
        "solved": found.solved,
        "outcome": found.outcome.value,
        "name": found.name,
        "path": found.path,
        "files": dict(found.answer),
        "tests": dict(found.tests) if with_tests else {},
        "first_passed": found.first_passed,
        "reason": redact(found.reason) or None,
        "next_step": found.next_step or None,
        "failing": redact_values(found.failing),
        "confidence": found.confidence,
        "doubts": redact_values(found.doubts),
        "notes": redact_values(found.notes),
        "iterations": redact_values([asdict(each) for each in found.iterations]),
        "lessons": redact_values(found.lessons),
        "usage": asdict(found.usage),
        "seconds": found.seconds,
    }


def show(screen: Screen, found: Solution, wish: Wish) -> None:
    files = found.answer
    is_piped = not sys.stdout.isatty()
    if is_piped or wish.code_only:
        if found.solved:
            sys.stdout.write(together(files))
        _show(screen.console, found, {}, wish)
        return
    _show(terminal.console(), found, files, wish)


def _show(console: Console, found: Solution, files: Files, wish: Wish) -> None:
    console.print()
    if found.solved:
        how = "the first answer passed" if found.first_passed else f"after {words.counted(_rounds(found), 'round')}"
        tests = words.counted(len(found.tests), "test file")
        sure = f"; confidence {words.percent(found.confidence)}" if found.confidence is not None else ""
        console.print(plain(f"Solved: {found.name or found.path}, {how}; {tests} passed{sure}.", "bold green"))
    else:
        console.print(plain(f"Not solved: {redact(found.reason)}", "bold yellow"))
        for line in found.failing[:5]:
            console.print(plain(f"  {redact(line)}"))
    for path, text in files.items():
        show_code(console, path, text)
    if wish.show_tests:
        for path, text in found.tests.items() if files else ():
            show_code(console, path, text)
    for doubt in found.doubts:
        console.print(plain(f"Doubt: {redact(words.capitalized(doubt))}."))
    for note in found.notes:
        console.print(plain(f"Note: {redact(note)}", "dim"))
    console.print(plain(f"{words.took(found.seconds)}. Cost: {spent(found.usage)}.", "dim"))
    if wish.out is not None:
        console.print(plain(f"Written to {wish.out}.", "bold"))
    if found.next_step and not found.solved:
        console.print(plain(f"Next: {found.next_step}", "bold"))


def _rounds(found: Solution) -> int:
    return max((each.number for each in found.iterations), default=0)


def show_code(console: Console, path: str, text: str) -> None:
    console.print(plain(path, "bold"))
    terminal.print_code(console, text, "python")
