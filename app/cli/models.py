"""`selfheal models`: which models can be used here and now, and which roles use them.

`models pull` fetches one, into Ollama or as a Hugging Face snapshot. `models check` says what a snapshot lacks.
"""

from __future__ import annotations

import json as jsonlib
import re
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli.command import Json, end, load_settings, run

if TYPE_CHECKING:
    from agent.models.available import Source
    from app.settings import Settings

models = typer.Typer(help="Show the models that can be used here, pull one, or check a snapshot.", invoke_without_command=True)
_REPOSITORY = re.compile(r"hf:[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")
ROLES = {  # the settings that name the model of a role, the first that is set
    "write, design": ("model_write", "model_repair"),
    "repair": ("model_repair",),
    "diagnose": ("model_diagnose",),
    "review, dispute": ("model_review",),
    "challenge, attack": ("model_challenge",),
}


@models.callback()
def show(context: typer.Context, json: Json = False) -> None:
    """Show the models of Ollama, of a server, of hosted providers whose key is set, snapshots, and what is configured."""
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
    for name, value in chosen.items():
        typer.echo(f"  {name}: {value}")


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

    folder = snapshots.folder_of(name.partition(":")[2] if name.startswith(snapshots.PREFIXES) else name)
    found = snapshots.problems(folder)
    if json:
        typer.echo(jsonlib.dumps({"folder": str(folder), "complete": not found, "problems": list(found)}, indent=2))
    elif not found:
        typer.echo(f"{folder} is complete.")
    else:
        for problem in found:
            typer.echo(problem)
        is_pulled = folder.is_relative_to(snapshots.root())
        again = f"selfheal models pull hf:{folder.relative_to(snapshots.root()).as_posix()}" if is_pulled else "the download"
        typer.echo(f"Repeat {again if not is_pulled else f'`{again}`'}; it resumes.")
    raise typer.Exit(1 if found else 0)


async def _pulled(name: str, settings: Settings) -> None:
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    from agent.models import available
    from app.cli import terminal

    screen = terminal.console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=screen, disable=not screen.is_terminal) as bar:
        task, last = bar.add_task(name, total=None), ""
        async for step in available.pull(name, _ollama(settings)):
            bar.update(task, description=step.status[:60], completed=step.completed, total=step.total or None)
            if not screen.is_terminal and step.status != last:
                screen.print(terminal.plain(step.status))
            last = step.status
    typer.echo(f"ollama_chat/{name} can be used.")


async def _found(settings: Settings) -> tuple[list[Source], dict[str, Any]]:
    from agent.models import available, registered, snapshots
    from agent.models.available import Source
    from app.assembly import models_of

    found = [await available.ollama(_ollama(settings))]
    if settings.model_api_base and not _is_ollama(settings):
        key = settings.model_api_key.get_secret_value() if settings.model_api_key else None
        found.append(await available.server(settings.model_api_base, key))
    found += available.hosted()
    found += [
        Source("snapshot", str(each.folder), (f"transformers:{each.name}",), " ".join(each.problems))
        for each in snapshots.listed()
    ]
    found += [Source("extension", "", (name,)) for name in registered.names()]
    found.append(Source("scripted", "", ("scripted",)))
    first = await models_of(settings)
    chosen = {"model": "none" if first is None else first.name, "model_strong": settings.model_strong or "none"}
    chosen |= {"fallbacks": ", ".join(settings.model_fallbacks) or "none"}
    return found, chosen | {
        f"role {role}": next((value for name in names if (value := getattr(settings, name))), chosen["model"])
        for role, names in ROLES.items()
    }


def _is_ollama(settings: Settings) -> bool:
    return (settings.model or "").startswith(("ollama/", "ollama_chat/"))


def _ollama(settings: Settings) -> str:
    from agent.models.available import OLLAMA

    return settings.model_api_base if settings.model_api_base and _is_ollama(settings) else OLLAMA
