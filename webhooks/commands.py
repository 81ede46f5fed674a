"""The grammar of commands in comments: `/heal` at the start of a line, outside code and quotations."""

from __future__ import annotations

import re

_FENCE = re.compile(r" {0,3}(?P<marks>`{3,}|~{3,})(?P<info>.*)")
_COMMAND = re.compile(r" {0,3}/heal(?=\s|$)", re.IGNORECASE)
_HIDDEN = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)


def asks_to_heal(comment: str) -> bool:
    """Whether a line of the comment is a `/heal` command.

    Lines in fenced or indented code, quotations (`>`) and HTML comments are not commands. Words after `/heal` are allowed.
    """
    fence: str | None = None
    for line in _HIDDEN.sub("", comment).splitlines():
        marks = _FENCE.match(line)
        if fence is not None:
            if marks and marks["marks"].startswith(fence) and not marks["info"].strip():
                fence = None
        elif marks and not (marks["marks"][0] == "`" and "`" in marks["info"]):
            fence = marks["marks"]
        elif _COMMAND.match(line):
            return True
    return False
