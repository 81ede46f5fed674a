"""The commands of `selfheal memory`. Their implementations are imported when a command runs."""

from __future__ import annotations

from typing import Annotated

import typer

from app.cli.command import Json, OfRepository, load_settings, run, wrong_use

memory = typer.Typer(help="List or delete what Selfheal learned about each repository.", no_args_is_help=True)


@memory.command("list")
def list_memories(
    repository: OfRepository = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="Maximum number of rows.")] = 50,
    json: Json = False,
) -> None:
    """List memories, newest first."""
    settings = load_settings()
    from app.cli.memory import listing

    run(listing.list_memories(settings, repository=repository, limit=limit, json=json), listing.StoreError)


@memory.command()
def forget(
    number: Annotated[int | None, typer.Argument(metavar="ID", help="Id of the memory, as shown by `memory list`.")] = None,
    repository: Annotated[
        str | None, typer.Option("--repository", metavar="OWNER/NAME", help="All memories of this repository.")
    ] = None,
) -> None:
    """Delete one memory, or all memories of a repository."""
    if (number is None) == (repository is None):
        wrong_use("pass either the ID of a memory, or --repository OWNER/NAME")
    settings = load_settings()
    from app.cli.memory import listing

    dropped = run(listing.forget(settings, memory_id=number, repository=repository), listing.StoreError)
    if not dropped:
        wrong_use(f"no memory matches {number or repository}; `selfheal memory list` shows all memories")
    typer.echo(f"Deleted: {dropped}.")
