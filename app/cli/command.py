"""What every command does alike: it reads the settings, runs, and ends with an exit code and a line of what went wrong.

Exit codes: 0 done, 1 not so or it failed, 2 wrong use or a wrong setting, 130 stopped.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeVar

import typer

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from app.settings import Settings

T = TypeVar("T")

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output, for scripts.")]
OfRepository = Annotated[str | None, typer.Option("--repository", metavar="OWNER/NAME", help="Only of this repository.")]


def load_beside_work() -> None:
    """Have the interpreter suit a command that loads much while it already works, and ends soon."""
    # What is loaded stays, and the garbage collector would look through it again and again: a tenth of its CPU (mypy's idea).
    gc.set_threshold(300_000, 2, 2)  # more objects than all that is loaded
    # Seconds after which a thread that imports lets the event loop go on; of Python's 0.005 every run waits many times.
    sys.setswitchinterval(0.001)


def load_settings(**overrides: object) -> Settings:
    """The settings, with those in the working folder's `.env` unless `env_file` says otherwise."""
    from app.settings import ENV_FILE, SettingsError, load

    try:
        return load(**{"env_file": ENV_FILE, **overrides})  # type: ignore[arg-type]
    except SettingsError as error:
        wrong_use(str(error))


def run(work: Coroutine[Any, Any, T], *expected: type[Exception], new_loop: Callable[[], AbstractEventLoop] | None = None) -> T:
    """Run a command to its end; what is `expected` to go wrong is one line, and no fault of the one who called.

    `new_loop` makes another event loop than asyncio's own.
    """
    from app import stopping
    from app.settings import SettingsError

    try:
        return stopping.run(work, new_loop)
    except SettingsError as error:
        wrong_use(str(error))
    except expected as error:
        end(str(error), 1)
    except KeyboardInterrupt:
        typer.echo("selfheal: stopped, nothing is left behind", err=True)
        raise typer.Exit(stopping.STOPPED) from None


def wrong_use(message: str) -> NoReturn:
    """The one who called can put it right: the message says how."""
    end(message, 2)


def end(message: str, code: int) -> NoReturn:
    """Say it on standard error and end with the exit code."""
    from app.redaction import redact

    for line in redact(message).splitlines():
        typer.secho(f"selfheal: {line}", err=True, fg="red" if sys.stderr.isatty() else None)
    raise typer.Exit(code)
