"""`selfheal models`: which models can be used here and now, and which roles use them.

`models pull` fetches one, into Ollama or as a Hugging Face snapshot. `models check` says what a snapshot lacks.
"""

from __future__ import annotations

import json as jsonlib
import re
import sys
from collections.abc import Coroutine, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from app.cli.command import Json, end, load_settings, run

if TYPE_CHECKING:
    from agent.models.available import ModelSource
    from agent.models.router import Models
    from agent.models.values import ModelSettings
    from app.settings import Settings

models = typer.Typer(help="Show the models that can be used here, pull one, or check a snapshot.", invoke_without_command=True)
_REPOSITORY = re.compile(r"hf:[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")


@models.callback()
def show(context: typer.Context, json: Json = False) -> None:
    """Show the models that can be used here, and the model of each role with its temperature and limits."""
    if context.invoked_subcommand is not None:
        return
    settings = load_settings()
    found, chosen = run(_found(settings))
    if json:
        typer.echo(jsonlib.dumps({"configured": chosen, "sources": [asdict(each) for each in found]}, indent=2))
        return
    for each in found:
        typer.secho(f"{each.kind}, {each.where}" if each.where else each.kind, bold=True)
        for name in each.names:
            typer.echo(f"  {name}")
        if each.problem:
            typer.echo(f"  {each.problem}")
    typer.secho("configured", bold=True)
    for name in ("rungs", "fallbacks"):
        typer.echo(f"  {name}: {', '.join(chosen[name]) or 'none'}")
    typer.echo(f"  embedding: {chosen['embedding'] or 'none'}")
    rows = [("role", "temperature", "prompt tokens", "answer tokens", "seconds", "model")]
    for each in chosen["roles"]:
        least, most = each["temperature"]
        warmth = f"{least:g} to {most:g}" if most > least else f"{least:g}"
        limits = (str(each["prompt_tokens"]), str(each["answer_tokens"]), f"{each['seconds']:g}")
        rows.append((each["role"], warmth, *limits, each["model"]))
    widths = [max(map(len, column)) + 2 for column in zip(*rows, strict=True)]
    for row in rows if chosen["roles"] else ():
        typer.echo(f"  {''.join(map(str.ljust, row, widths))}".rstrip())


@models.command()
def pull(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Ollama's name, such as qwen2.5-coder:7b, or hf:OWNER/NAME for a snapshot.")
    ],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Pull a model into Ollama, or a snapshot from Hugging Face. A pull that broke off resumes."""
    is_snapshot = name.startswith("hf:")
    if is_snapshot and not _REPOSITORY.fullmatch(name):
        end(f"{name!r} is not hf:OWNER/NAME, such as hf:Qwen/Qwen2.5-Coder-0.5B-Instruct", 2)
    if not name.strip():
        end("the name is empty; give one such as qwen2.5-coder:7b, or hf:OWNER/NAME", 2)
    if not yes:
        if not sys.stdin.isatty():
            end("a pull can take gigabytes: confirm it with --yes", 2)
        where = "as a snapshot" if is_snapshot else "into Ollama"
        typer.confirm(f"Pull {name.removeprefix('hf:')} {where}? A model can take several gigabytes", abort=True)
    from agent.models.available import PullFailed

    if is_snapshot:
        from agent.models import hub

        try:
            folder = hub.fetch(name.removeprefix("hf:"))
        except PullFailed as error:
            end(str(error), 1)
        typer.echo(f"transformers:{name.removeprefix('hf:')} can be used; it is in {folder}.")
        return
    run(_pulled(name, load_settings()), PullFailed)


@models.command()
def check(
    name: Annotated[str, typer.Argument(metavar="NAME", help="OWNER/NAME of a pulled snapshot, or a folder.")],
    json: Json = False,
) -> None:
    """Check that a Hugging Face snapshot is complete. Exits with 1 if it is not."""
    from agent.models import snapshots

    folder = snapshots.folder_of(name.partition(":")[2] if name.startswith((*snapshots.PREFIXES, "hf:")) else name)
    found = snapshots.problems(folder)
    if json:
        typer.echo(jsonlib.dumps({"folder": str(folder), "complete": not found, "problems": list(found)}, indent=2))
    elif not found:
        typer.echo(f"{folder} is complete.")
    else:
        for problem in found:
            typer.echo(problem)
        typer.echo(_advice(folder, snapshots.root()))
    raise typer.Exit(1 if found else 0)


def _advice(folder: Path, root: Path) -> str:
    """What to do about a snapshot that is not complete."""
    if not folder.is_relative_to(root):
        return "Repeat the download." if folder.is_dir() else "Give the path of a folder, or OWNER/NAME of a pulled snapshot."
    name = f"hf:{folder.relative_to(root).as_posix()}"
    if not _REPOSITORY.fullmatch(name):
        example = "Qwen/Qwen2.5-Coder-0.5B-Instruct"
        return f"A pulled snapshot is named OWNER/NAME, such as {example}, and another folder by a path, such as ./NAME."
    pull = f"`selfheal models pull {name}`"
    return f"Repeat {pull}; it resumes." if folder.is_dir() else f"Fetch it with {pull}."


async def _pulled(name: str, settings: Settings) -> None:
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    from agent.models import available
    from app.assembly import models_of
    from app.cli import terminal

    asked = _asked(settings, await models_of(settings))
    base = next(each.server or "" for each in asked if each.is_local)
    screen = terminal.console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=screen, disable=not screen.is_terminal) as bar:
        task, last = bar.add_task(name, total=None), ""
        async for step in available.pull(name, base):
            bar.update(task, description=step.status[:60], completed=step.completed, total=step.total or None)
            if not screen.is_terminal and step.status != last:
                screen.print(terminal.plain(step.status))
            last = step.status
    typer.echo(f"ollama_chat/{name} can be used.")


async def _found(settings: Settings) -> tuple[list[ModelSource], dict[str, Any]]:
    import asyncio

    from agent.models import available, registered, snapshots
    from agent.models.available import ModelSource
    from app.assembly import models_of

    chosen = await models_of(settings)
    found = list(await asyncio.gather(*_servers(settings, chosen)))
    found += available.hosted()
    found += [
        ModelSource("snapshot", str(each.folder), (f"transformers:{each.name}",), " ".join(each.problems))
        for each in snapshots.listed()
    ]
    found += [ModelSource("extension", "", (name,)) for name in registered.names()]
    found.append(ModelSource("scripted", "", ("scripted",)))
    return found, _configured(chosen)


def _asked(settings: Settings, chosen: Models | None) -> list[ModelSettings]:
    """The configured models, and two without a name: one at Ollama's address, one at that of `MODEL_API_BASE`."""
    from app.assembly import models_named

    known = [*chosen.all_settings, *([chosen.embedding] if chosen.embedding else [])] if chosen is not None else []
    return [*known, *(models_named(settings, name).settings("repair") for name in ("ollama_chat/", "openai/"))]


def _servers(settings: Settings, chosen: Models | None) -> Iterator[Coroutine[Any, Any, ModelSource]]:
    """Each server once."""
    from agent.models import available
    from app.assembly import models_named

    seen = set()
    for each in _asked(settings, chosen):
        base, kind = (each.server or "").rstrip("/"), "ollama" if each.is_local else each.provider
        if not base or (base, kind) in seen:
            continue
        seen.add((base, kind))
        plain = models_named(settings, f"{each.provider}/").settings("repair").server or ""
        suffix = "" if plain.rstrip("/") == base else f"@{base}"  # where a name without a server leads
        if each.is_local:
            yield available.ollama(base, suffix)
        else:
            yield available.server(base, each.api_key, each.provider, suffix)


def _configured(chosen: Models | None) -> dict[str, Any]:
    """The models by role, with the limits of a call. The same keys without a model."""
    from agent.models.values import COLD, Role
    from agent.proposers.model import WARMEST
    from agent.solving.options import UserOptions

    warmest = {"repair": WARMEST, "write": UserOptions().temperature}
    roles = []
    for role in get_args(Role) if chosen is not None else ():
        assert chosen is not None
        limits = chosen.settings(role)
        roles.append(
            {
                "role": role,
                "model": _spelled(limits),
                "temperature": [chosen.temperature(role), max(chosen.temperature(role), warmest.get(role, COLD))],
                "prompt_tokens": chosen.room(role),
                "answer_tokens": chosen.answer_tokens(role),
                "seconds": limits.timeout,
            }
        )
    return {
        "rungs": list(chosen.rungs) if chosen is not None else [],
        "fallbacks": [_spelled(each) for each in chosen.fallbacks] if chosen is not None else [],
        "embedding": _spelled(chosen.embedding) if chosen is not None and chosen.embedding else None,
        "roles": roles,
    }


def _spelled(settings: ModelSettings) -> str:
    """As a setting names it, with its server."""
    return f"{settings.name}@{settings.api_base}" if settings.api_base else settings.name
