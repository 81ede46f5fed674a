"""Shared by all commands: reading settings, running a coroutine, and exiting with a code and an error message.

Exit codes: 0 success, 1 failure or a negative answer, 2 usage error or an invalid setting, 130 stopped by a signal.
"""

from __future__ import annotations

import atexit
import errno
import gc
import os
import sys
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeVar

import typer

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from app.settings import Settings

T = TypeVar("T")

Json = Annotated[bool, typer.Option("--json", help="Print JSON on standard output, for scripts.")]
OfRepository = Annotated[str | None, typer.Option("--repository", metavar="OWNER/NAME", help="Only this repository.")]


def tune_interpreter() -> None:
    """Tune garbage collector and thread switching for a short-lived command that imports many modules while it works."""
    # Imported objects stay alive; scanning them again and again costs a tenth of the CPU time (idea from mypy).
    gc.set_threshold(300_000, 2, 2)  # more objects than the imports create
    atexit.register(gc.freeze)  # Python scans everything once more before it ends: seconds, after a search
    # Seconds until an importing thread yields to the event loop; with Python's 0.005 the loop waits often.
    sys.setswitchinterval(0.001)


def load_settings(**overrides: object) -> Settings:
    """Read the settings from the environment and the current folder's `.env`; `env_file` overrides the latter."""
    from app.settings import ENV_FILE, SettingsError, load

    try:
        return load(**{"env_file": ENV_FILE, **overrides})  # type: ignore[arg-type]
    except SettingsError as error:
        wrong_use(str(error))


def run(
    work: Coroutine[Any, Any, T],
    *expected: type[Exception],
    wrong: tuple[type[Exception], ...] = (),
    new_loop: Callable[[], AbstractEventLoop] | None = None,
) -> T:
    """Run a command to its end. `expected` exceptions and usage errors become error messages.

    `new_loop` creates the event loop, instead of asyncio's default.
    """
    from app import stopping
    from app.settings import SettingsError

    refusals: tuple[type[Exception], ...] = (SettingsError, *wrong)
    try:
        answer = stopping.run(work, new_loop)
        sys.stdout.flush()  # an error now has a message; at the interpreter's end it has none
        return answer
    except refusals as error:
        wrong_use(str(error))
    except expected as error:
        end(str(error), 1)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is still buffered would fail again
        where = error.filename or "the answer"
        end(f"{where} cannot be written: {error.strerror}. Free some space, or write elsewhere, then run the command again.", 1)
    except KeyboardInterrupt:
        typer.echo("selfheal: stopped; everything was cleaned up", err=True)
        raise typer.Exit(stopping.STOPPED) from None


def wrong_use(message: str) -> NoReturn:
    """Exit with 2; the message says how to correct the call."""
    end(message, 2)


def end(message: str, code: int) -> NoReturn:
    """Print the message to standard error and exit."""
    from app.redaction import redact

    for line in redact(message).splitlines():
        typer.secho(f"selfheal: {line}", err=True, fg="red" if sys.stderr.isatty() else None)
    raise typer.Exit(code)
