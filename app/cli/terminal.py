"""Terminal output: wrapped only on a terminal, and with control characters of untrusted text removed."""

from __future__ import annotations

import sys
from datetime import datetime

from rich.console import Console
from rich.text import Text

from agent.guest.text import clean

_WIDE = 10_000  # columns in a file or a pipe, where lines must not wrap
_LONGEST = 1_000_000  # characters of one text


def console(*, stderr: bool = False) -> Console:
    """A console on standard output or standard error; it wraps lines only on a terminal."""
    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, width=None if stream.isatty() else _WIDE, highlight=False)


def plain(text: object, style: str = "") -> Text:
    """The text without markup or control sequences; for text from repositories, models and GitHub."""
    return Text(clean(str(text), _LONGEST), style=style)


def print_code(console: Console, text: str, language: str) -> None:
    """Highlighted, and not cut at the width: the terminal wraps long lines, and what is copied from it is the code."""
    from rich.syntax import Syntax  # loads all of pygments

    highlighted = Syntax("", language, background_color="default").highlight(plain(text).plain)
    highlighted.remove_suffix("\n")
    console.print(highlighted, soft_wrap=True)


def moment(at: datetime, *, seconds: bool = False) -> str:
    """The local time with its zone: "2026-11-27 23:30 CET"."""
    return at.astimezone().strftime("%Y-%m-%d %H:%M:%S %Z" if seconds else "%Y-%m-%d %H:%M %Z")
