"""The commands of `selfheal memory`: options in, exit code out."""

from __future__ import annotations

from typing import Annotated

import typer

from app.cli.command import Json, OfRepository, load_settings, run, wrong_use

memory = typer.Typer(help="Look at what is remembered of each repository, and forget it.", no_args_is_help=True)


@memory.command("list")
def list_memories(
    repository: OfRepository = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="How many, newest first.")] = 50,
    json: Json = False,
) -> None:
    """List what is remembered, newest first."""
    settings = load_settings()
    from app.cli.memory import listing as memories

    run(memories.list_memories(settings, repository=repository, limit=limit, json=json), memories.StoreError)


@memory.command()
def forget(
    number: Annotated[int | None, typer.Argument(metavar="ID", help="Id of the memory, as `memory list` shows it.")] = None,
    repository: Annotated[
        str | None, typer.Option("--repository", metavar="OWNER/NAME", help="Everything of this repository.")
    ] = None,
) -> None:
    """Forget one memory, or everything of a repository."""
    if (number is None) == (repository is None):
        wrong_use("say what to forget: the ID of a memory, or --repository OWNER/NAME")
    settings = load_settings()
    from app.cli.memory import listing as memories

    dropped = run(memories.forget(settings, memory_id=number, repository=repository), memories.StoreError)
    if not dropped:
        wrong_use(f"nothing is remembered as {number or repository}; `selfheal memory list` shows what is")
    typer.echo(f"Forgotten: {dropped}.")
