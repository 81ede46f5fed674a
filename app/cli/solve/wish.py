"""How the user wants code to be written and shown."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import typer

from agent.solving.options import FIELDS, UserOptions, flag

Autonomy = Literal["full", "review-repairs", "review-all"]
Switch = Literal["on", "off"]
DEFAULTS = UserOptions()


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish(UserOptions):
    """The options that code is written with, and those that only the command line has."""

    yes: bool = False
    autonomy: Autonomy = "full"
    code_only: bool = False  # on standard output
    out: Path | None = None
    streams: bool = False  # events and result as lines of JSON on standard output


def option(name: str) -> Any:
    """The option of the command line for a field of `UserOptions`."""
    known = FIELDS[name].metadata
    return typer.Option(flag(name), help=known["description"], min=known.get("ge"), max=known.get("le"))
