"""`selfheal solve`: write code from a specification and show it.

Progress goes to standard error. Standard output gets the code alone if it is a pipe or with the profile `copy`.
"""

from __future__ import annotations

import asyncio
import json as jsonlib
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from platformdirs import user_cache_path
from rich.console import Console

from agent.contract import words
from agent.engine import Engine
from agent.solving.draft import Draft
from agent.solving.output import formed
from agent.solving.solve import Options, Solution, solve
from agent.solving.specification import Specification
from agent.solving.writer import Writing
from app.assembly import budget_of, check_models, extensions_of, limits_of, models_of, policy_of, sandboxes_in
from app.cli import terminal
from app.cli.checkout.local_engine import Screen
from app.cli.solve.wish import Wish
from app.cli.terminal import plain
from app.publish.proof import spent
from app.settings import Settings, SettingsError

NO_MODEL = (
    "a model must write the code, and there is none: start Ollama and run `ollama pull qwen2.5-coder:7b`, name one with "
    "--model (such as anthropic/claude-sonnet-4-5), or try it with --model scripted"
)


async def run(spec: Specification, settings: Settings, wish: Wish, *, json: bool) -> bool:
    """True if the code passes its tests and the gate.

    Raises `BadSpecification`, `Declined`, `ModelError`, `SandboxError`, `SettingsError`.
    """
    await check_models(settings)
    screen = Screen(terminal.console(stderr=True), time.monotonic())
    engine = await _engine(settings)
    if engine.models is None:
        raise SettingsError(NO_MODEL)
    asks = not (wish.yes or wish.quiet_result or json) and sys.stdin.isatty() and sys.stderr.isatty()

    async def confirm(draft: Draft) -> bool:
        with screen.paused():
            return await asyncio.to_thread(_confirmed, screen.console, draft)

    options = Options(
        design=wish.design,
        writing=Writing(wish.candidates, wish.decode, wish.temperature),
        blind_tests=wish.blind_tests,
        adversarial=wish.adversarial,
        critic=wish.critic,
        retry=wish.retry,
        confirm=confirm if asks and wish.design else None,
    )
    async with screen.working("Writing"):
        found = await solve(spec, engine, emit=screen.emit, options=options)
    files = {path: formed(text, found.name, wish.form, clean_doc=wish.clean_doc) for path, text in _code(found).items()}
    if wish.out is not None:
        _save(wish.out, found, files, with_tests=wish.tests_shown)
    show(screen, found, files, wish, json=json)
    return found.solved


async def _engine(settings: Settings) -> Engine:
    """An engine without persistence. A model's code is never trusted, so there is no fallback to a plain process."""
    sandboxes, models, extensions = await asyncio.gather(
        sandboxes_in(user_cache_path("selfheal"), settings, trusted=settings.trust_code), models_of(settings), extensions_of()
    )
    policy = replace(policy_of(settings), autonomy="full")
    return Engine(sandboxes, models, None, budget_of(settings), limits_of(settings), policy, extensions)


def _code(found: Solution) -> dict[str, str]:
    return {path: text for path, text in found.files.items() if path not in found.tests}


def _confirmed(console: Console, draft: Draft) -> bool:
    """Show the design and ask."""
    console.print()
    for path, text in draft.files.items():
        _show_code(console, path, text)
    console.print(plain("Is this what you mean? [Y/n] ", "bold"), end="")
    return sys.stdin.readline().strip().lower() in ("", "y", "yes")


def _save(folder: Path, found: Solution, files: dict[str, str], *, with_tests: bool) -> None:
    """Write code, tests and log. Raises `SettingsError` if the folder cannot be written."""
    texts = {**files, **(found.tests if with_tests else {}), "log.json": jsonlib.dumps(as_json(found, files), indent=2) + "\n"}
    try:
        for path, text in texts.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, "utf-8")
    except OSError as error:
        raise SettingsError(
            f"{error.filename or folder} cannot be written: {error.strerror}; pass another folder to --out"
        ) from error


def as_json(found: Solution, files: dict[str, str]) -> dict[str, Any]:
    """The same keys for every result; missing values are null."""
    return {
        "solved": found.solved,
        "name": found.name,
        "path": found.path,
        "files": files,
        "tests": dict(found.tests),
        "first_passed": found.first_passed,
        "reason": found.reason or None,
        "next_step": found.next_step or None,
        "failing": list(found.failing),
        "confidence": found.confidence,
        "doubts": list(found.doubts),
        "notes": list(found.notes),
        "iterations": [asdict(each) for each in found.iterations],
        "lessons": list(found.lessons),
        "usage": asdict(found.usage),
        "seconds": found.seconds,
    }


def show(screen: Screen, found: Solution, files: dict[str, str], wish: Wish, *, json: bool) -> None:
    if json:
        print(jsonlib.dumps(as_json(found, files), indent=2))  # noqa: T201 - the command's answer
        return
    is_piped = not sys.stdout.isatty()
    if is_piped or wish.quiet_result:
        if found.solved:
            sys.stdout.write("\n\n".join(files.values()) if len(files) == 1 else _together(files))
        _show(screen.console, found, {}, wish)
        return
    _show(terminal.console(), found, files, wish)


def _together(files: dict[str, str]) -> str:
    return "\n".join(f"# {path}\n{text}" for path, text in files.items())


def _show(console: Console, found: Solution, files: dict[str, str], wish: Wish) -> None:
    console.print()
    if found.solved:
        how = "the first answer passed" if found.first_passed else f"after {words.counted(_rounds(found), 'round')}"
        tests = words.counted(len(found.tests), "test file")
        console.print(plain(f"Solved: {found.name or found.path}, {how}; {tests} passed.", "bold green"))
    else:
        console.print(plain(f"Not solved: {found.reason}", "bold yellow"))
        for line in found.failing[:5]:
            console.print(plain(f"  {line}"))
    for path, text in files.items():
        _show_code(console, path, text)
    if wish.tests_shown:
        for path, text in found.tests.items() if files else ():
            _show_code(console, path, text)
    for doubt in found.doubts:
        console.print(plain(f"Doubt: {words.capitalized(doubt)}."))
    for note in found.notes:
        console.print(plain(f"Note: {note}", "dim"))
    console.print(plain(f"{words.took(found.seconds)}. Cost: {spent(found.usage)}.", "dim"))
    if wish.out is not None:
        console.print(plain(f"Written to {wish.out}.", "bold"))
    if not found.solved:
        console.print(plain(f"Next: {found.next_step}", "bold"))


def _rounds(found: Solution) -> int:
    return len({each.number for each in found.iterations})


def _show_code(console: Console, path: str, text: str) -> None:
    from rich.syntax import Syntax  # loads all of pygments

    console.print(plain(path, "bold"))
    console.print(Syntax(plain(text).plain, "python", background_color="default"))
