"""`selfheal`: the command line. Each command loads only what it needs, so that `--help` stays instant.

Exit codes: 0 done (for `fix`: healed), 1 not healed or it failed on the way, 2 wrong use or a wrong setting.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeVar

import typer

from app.bench_commands import bench

if TYPE_CHECKING:
    from app.settings import Settings

T = TypeVar("T")

app = typer.Typer(
    name="selfheal",
    help="Reproduces a red CI run, repairs the code, proves the green and opens a pull request with its evidence.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
attempts = typer.Typer(help="Look at what the service did.", no_args_is_help=True)
app.add_typer(attempts, name="attempts")
app.add_typer(bench, name="bench")

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output, for scripts.")]


def main() -> None:
    """Entry point of the `selfheal` script."""
    app()


def _tell_version(asked: bool) -> None:
    if asked:
        version()
        raise typer.Exit


@app.callback()
def options(
    _: Annotated[bool, typer.Option("--version", callback=_tell_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    """Options of the command itself."""


@app.command()
def version() -> None:
    """Print the version."""
    from importlib.metadata import version as installed

    typer.echo(f"selfheal {installed('selfheal')}")


@app.command()
def fix(
    path: Annotated[Path, typer.Argument(help="Folder of a checkout whose tests fail.")],
    test: Annotated[
        str | None, typer.Option("--test", metavar="CMD", help="Command that runs the tests. Default: found in the checkout.")
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", metavar="NAME", help="LiteLLM name of the model; `none` for the rungs without one.")
    ] = None,
    max_iterations: Annotated[
        int | None, typer.Option("--max-iterations", min=1, help="Rounds of propose, verify, reflect.")
    ] = None,
    apply: Annotated[
        bool, typer.Option("--apply", help="Write the verified repair into the checkout. Without it nothing is touched.")
    ] = False,
    json: Json = False,
) -> None:
    """Heal a local checkout with failing tests, and show the patch with its evidence.

    Settings come from the environment and from no `.env`: that of a checkout is not yours.
    """
    if not path.is_dir():
        _wrong_use(f"{path} is not a folder; give the folder of a checkout")
    from app import fix as local

    given = {"model": model, "max_iterations": max_iterations}
    settings = _settings(env_file=None, **{name: value for name, value in given.items() if value is not None})
    # Asked to end by a machine (a time limit, a shutdown): as tidily as with Ctrl-C.
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    healed = _run(local.run(path.resolve(), settings, test=test, apply=apply, json=json))
    raise typer.Exit(0 if healed else 1)


@app.command()
def serve() -> None:
    """Receive GitHub's webhooks (the web process)."""
    from app import service

    _run(service.web(_settings()), *service.CANNOT_START)


@app.command()
def worker() -> None:
    """Heal what the webhooks asked for (the worker process); start as many as you like."""
    from app import service

    _run(service.worker(_settings()), *service.CANNOT_START)


@app.command()
def dev() -> None:
    """Web, worker and an embedded Redis together, for trying things on one machine."""
    from app import service

    _run(service.both(_settings()), *service.CANNOT_START)


@attempts.command("list")
def list_attempts(
    repository: Annotated[
        str | None, typer.Option("--repository", metavar="OWNER/NAME", help="Only of this repository.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="How many, newest first.")] = 20,
    json: Json = False,
) -> None:
    """List attempts, newest first."""
    from app import inspection

    _run(inspection.list_attempts(_settings(), repository=repository, limit=limit, json=json), inspection.StoreError)


@attempts.command("show")
def show_attempt(
    attempt: Annotated[str, typer.Argument(metavar="ID", help="Id of the attempt, or its first characters.")],
    json: Json = False,
) -> None:
    """Show one attempt with its timeline."""
    from app import inspection

    if not _run(inspection.show_attempt(_settings(), attempt, json=json), inspection.StoreError):
        _wrong_use(f"there is no attempt {attempt!r}; `selfheal attempts list` shows them")


def _settings(**overrides: object) -> Settings:
    """The settings, with those in the working folder's `.env` unless `env_file` says otherwise."""
    from app.settings import ENV_FILE, SettingsError, load

    try:
        return load(**{"env_file": ENV_FILE, **overrides})  # type: ignore[arg-type]
    except SettingsError as error:
        _wrong_use(str(error))


def _run(work: Coroutine[Any, Any, T], *expected: type[Exception]) -> T:
    """Run a command to its end; what is `expected` to go wrong is one line, and no fault of the one who called."""
    import asyncio

    from app.settings import SettingsError

    try:
        return asyncio.run(work)
    except SettingsError as error:
        _wrong_use(str(error))
    except expected as error:
        _end(str(error), 1)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


def _wrong_use(message: str) -> NoReturn:
    _end(message, 2)


def _end(message: str, code: int) -> NoReturn:
    for line in message.splitlines():
        typer.secho(f"selfheal: {line}", err=True, fg="red" if sys.stderr.isatty() else None)
    raise typer.Exit(code)
