"""`selfheal cache` and `selfheal cache clear`: the packages kept for later attempts, of the service and of `selfheal fix`."""

from __future__ import annotations

import json as jsonlib
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.command import Json, end, load_settings, wrong_use

if TYPE_CHECKING:
    from app.settings import Settings
    from sandbox.install.caches import CacheState, Cleared

cache = typer.Typer(help="Show or clear the caches of packages.", invoke_without_command=True)


@cache.callback()
def show(context: typer.Context, json: Json = False) -> None:
    """Show the caches of packages: wheels, environments, Node modules, Pythons."""
    if context.invoked_subcommand is not None:
        return
    settings = load_settings()
    from sandbox.install.caches import states

    found = [state for folder in _folders(settings) for state in states(folder)]
    bound = settings.cache_mb << 20
    if json:
        typer.echo(jsonlib.dumps([_row(state, bound) for state in found], indent=2))
    elif found:
        _print(found, bound)
    else:
        typer.echo("No caches yet.")


@cache.command()
def clear(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Name of the cache, as shown. Default: all.")] = None,
) -> None:
    """Remove what no running process uses. It is downloaded again when needed."""
    settings = load_settings()
    from sandbox.install import caches

    if name is not None and name not in caches.CACHES:
        wrong_use(f"there is no cache {name!r}; the caches are {', '.join(caches.CACHES)}")
    left: list[Path] = []
    for each in caches.CACHES if name is None else (name,):
        done = [caches.clear(folder, each) for folder in _folders(settings)]
        typer.echo(f"{each}: {_sentence(done)}")
        left += [path for one in done for path in one.left]
    if left:
        end("\n".join(f"{path} cannot be removed; remove it as the user who owns it" for path in left), 1)


def _folders(settings: Settings) -> tuple[Path, Path]:
    """Where the service and the commands for checkouts keep packages."""
    from platformdirs import user_cache_path

    return settings.sandboxes / "packages", user_cache_path("selfheal") / "packages"


def _row(state: CacheState, bound: int) -> dict[str, object]:
    return {
        "name": state.name,
        "path": str(state.path),
        "entries": state.entries,
        "size": state.size,
        "bound": bound,
        "oldest": None if state.oldest is None else _when(state.oldest),
        "newest": None if state.newest is None else _when(state.newest),
    }


def _print(found: list[CacheState], bound: int) -> None:
    from rich.table import Table

    from app.cli.terminal import console, plain

    table = Table(box=None, pad_edge=False)
    for column in ("name", "entries", "size", "bound", "oldest", "newest", "path"):
        table.add_column(
            column, no_wrap=column != "path", justify="right" if column in ("entries", "size", "bound") else "left"
        )
    for state in found:
        oldest, newest = ("" if made is None else _when(made) for made in (state.oldest, state.newest))
        table.add_row(state.name, str(state.entries), _mib(state.size), _mib(bound), oldest, newest, plain(str(state.path)))
    console().print(table)


def _sentence(done: list[Cleared]) -> str:
    removed, in_use = sum(one.removed for one in done), sum(one.in_use for one in done)
    entries = "1 entry" if removed == 1 else f"{removed} entries"
    stays = f"; {in_use} in use {'stays' if in_use == 1 else 'stay'}" if in_use else ""
    return f"removed {entries} ({_mib(sum(one.size for one in done))}){stays}"


def _mib(size: int) -> str:
    return f"{size / (1 << 20):.1f} MiB"


def _when(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
