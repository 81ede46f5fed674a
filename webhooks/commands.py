"""Parses commands in comments: `/heal` or `/heal flaky` at the start of a line, outside code and quotations."""

from __future__ import annotations

import re
from dataclasses import dataclass

_FENCE = re.compile(r" {0,3}(?P<marks>`{3,}|~{3,})(?P<info>.*)")
_COMMAND = re.compile(r" {0,3}/heal(?=\s|$)(?P<flaky>[ \t]+flaky\b)?", re.IGNORECASE)
_HIDDEN = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Heal:
    """The command `/heal`; `flaky`: repair flaky failures too."""

    flaky: bool = False


def command_in(comment: str) -> Heal | None:
    """The first command of the comment, outside fenced or indented code, quotations (`>`) and HTML comments.

    Other words after `/heal` are allowed.
    """
    fence: str | None = None
    for line in _HIDDEN.sub("", comment).splitlines():
        marks = _FENCE.match(line)
        if fence is not None:
            if marks and marks["marks"].startswith(fence) and not marks["info"].strip():
                fence = None
        elif marks and not (marks["marks"][0] == "`" and "`" in marks["info"]):
            fence = marks["marks"]
        elif found := _COMMAND.match(line):
            return Heal(flaky=found["flaky"] is not None)
    return None
