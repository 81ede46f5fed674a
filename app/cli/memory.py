"""`selfheal memory list` and `forget`: the memories kept for each repository."""

from __future__ import annotations

import json as jsonlib
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.command import Json, OfRepository, load_settings, run, wrong_use

if TYPE_CHECKING:
    from app.store.memories import StoredMemory

memory = typer.Typer(help="List or delete what Selfheal learned about each repository.", no_args_is_help=True)


@memory.command("list")
def list_memories(
    repository: OfRepository = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="Maximum number of rows.")] = 50,
    json: Json = False,
) -> None:
    """List memories, newest first."""
    settings = load_settings()
    from app.clock import SystemClock
    from app.store.database.address import StoreError
    from app.store.store import open_store

    async def listed() -> list[StoredMemory]:
        async with open_store(settings, SystemClock(), migrate=False) as store:
            return await store.memories(repository=repository, limit=limit)

    kept = run(listed(), StoreError)
    if json:
        rows = [
            {
                "id": each.id,
                "repository": each.repository,
                **asdict(each.recollection),
                "created_at": each.created_at.isoformat(),
            }
            for each in kept
        ]
        typer.echo(jsonlib.dumps(rows, indent=2))
    elif kept:
        _show(kept)
    else:
        typer.echo("No memories yet.")


@memory.command()
def forget(
    number: Annotated[int | None, typer.Argument(metavar="ID", help="ID of the memory, as shown by `memory list`.")] = None,
    repository: Annotated[
        str | None, typer.Option("--repository", metavar="OWNER/NAME", help="Delete all memories of this repository.")
    ] = None,
) -> None:
    """Delete one memory, or all memories of a repository."""
    if (number is None) == (repository is None):
        wrong_use("pass either the ID of a memory or --repository OWNER/NAME")
    settings = load_settings()
    from app.clock import SystemClock
    from app.store.database.address import StoreError
    from app.store.store import open_store

    async def forgotten() -> int:
        async with open_store(settings, SystemClock(), migrate=False) as store:
            return await store.forget_memories(memory_id=number, repository=repository)

    dropped = run(forgotten(), StoreError)
    if not dropped:
        wrong_use(f"no memory matches {number or repository}; `selfheal memory list` shows all memories")
    typer.echo(f"Deleted {dropped} {'memory' if dropped == 1 else 'memories'}.")


def _show(kept: list[StoredMemory]) -> None:
    from rich.table import Table

    from app.cli.terminal import console, plain

    table = Table(box=None, pad_edge=False)
    for column in ("id", "repository", "attempt", "outcome", "lessons"):
        table.add_column(column, no_wrap=column in ("id", "attempt", "outcome"))
    for memory in kept:
        of = memory.recollection
        learned = "; ".join([*([of.title] if of.title else []), *of.lessons])
        table.add_row(str(memory.id), plain(memory.repository), of.attempt[:12], of.outcome, plain(learned))
    console().print(table)
