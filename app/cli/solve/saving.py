"""The folder of `selfheal solve --out`: looked at before the run, written after it."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

import typer

from app.settings import SettingsError

MOST_AT_ONCE = 100  # runs that begin within one second
ELSEWHERE = "pass another folder to --out"


def fresh(folder: Path) -> Path:
    """A new folder in it, named after the time: nobody was asked whether files may be overwritten."""
    named = f"{datetime.now().astimezone():%Y-%m-%d-%H%M%S}"
    found = folder / named
    for number in range(2, MOST_AT_ONCE):
        try:
            found.mkdir(parents=True)
        except FileExistsError:  # of another run in this second
            found = folder / f"{named}-{number}"
        except OSError:
            break
        else:
            break
    return found  # `check` says why it cannot be used


def check(folder: Path, *, force: bool) -> None:
    """Make the folder, and ask before files in it are overwritten. Raises `SettingsError`, `typer.Abort`."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            first = min((each.name for each in folder.iterdir()), default=None)
    except OSError as error:
        raise _unwritable(error, folder) from error
    if first is None or force:
        return
    if sys.stdin.isatty() and sys.stderr.isatty():
        typer.confirm(f"{folder} has files, such as {first}. Overwrite those of the same name?", abort=True, err=True)
        return
    raise SettingsError(
        f"{folder} has files, such as {first}; pass --force to overwrite those of the same name, or {ELSEWHERE}"
    )


def save(folder: Path, texts: Mapping[str, str]) -> None:
    """Write files by path, none of them outside of the folder. Raises `SettingsError`."""
    try:
        for path, text in texts.items():
            target = folder / path
            if not target.resolve().is_relative_to(folder.resolve()):
                raise SettingsError(f"{target} is a link to a place outside of {folder}; remove the link, or {ELSEWHERE}")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, "utf-8", errors="replace")
    except RuntimeError as error:  # Python 3.11 and 3.12, of a circle of links
        raise SettingsError(f"{target} is a circle of links; remove it, or {ELSEWHERE}") from error
    except OSError as error:
        raise _unwritable(error, folder) from error


def _unwritable(error: OSError, folder: Path) -> SettingsError:
    return SettingsError(f"{error.filename or folder} cannot be written: {error.strerror}; {ELSEWHERE}")
