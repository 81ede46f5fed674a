"""How the command line speaks to people: lines as long as the place they go to allows, and no foreign hand on the terminal."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.text import Text

from agent.guest.text import clean

_WIDE = 10_000  # columns where nobody's screen is the bound: a line in a file or a pipe stays one line
_LONGEST = 1_000_000  # characters of one text


def console(*, stderr: bool = False) -> Console:
    """Standard output or standard error, wrapped only where a terminal shows it."""
    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, width=None if stream.isatty() else _WIDE, highlight=False)


def plain(text: object, style: str = "") -> Text:
    """Text as it is, not as markup; what repositories, models and GitHub wrote cannot steer the terminal."""
    return Text(clean(str(text), _LONGEST), style=style)
