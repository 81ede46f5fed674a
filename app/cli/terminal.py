"""Terminal output: wrapped only on a terminal, and with control characters of untrusted text removed."""

from __future__ import annotations

import sys

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
