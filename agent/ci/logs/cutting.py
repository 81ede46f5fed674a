"""Cuts a GitHub job log down to the few lines around its failure, as a hint for whoever looks for the cause.

The log is data from outside: cleaned, bounded, never trusted, never read for verdicts.
"""

from __future__ import annotations

import re

from agent.guest.text import clean
from sandbox.base import MIB

READ_LIMIT = MIB  # characters of a log that are looked at: its end
EXCERPT_LIMIT = 6000  # characters
LINE_LIMIT = 400

_STAMP = re.compile(r"^\ufeff?\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z ?")
_COMMAND = re.compile(r"^##\[(group|endgroup|error|warning|notice|command|debug|section)\]")
# Where the part worth reading starts, best first.
_HEADS = (
    re.compile(r"^=+ (?:FAILURES|ERRORS) =+$"),
    re.compile(r"^=+ short test summary info =+$"),
    re.compile(r"^Traceback \(most recent call last\):"),
    re.compile(r"^(?:=+|-+)$"),
    re.compile(r"\b(?:error|failed|failure)\b", re.IGNORECASE),
)


def excerpt(log: str, limit: int = EXCERPT_LIMIT) -> str:
    """At most `limit` characters: what the first failing step printed, from where it starts to tell of the failure."""
    lines: list[str] = []
    step_start, found_end = 0, None
    for raw in log[-READ_LIMIT:].split("\n"):
        line = clean(_STAMP.sub("", raw[: 4 * LINE_LIMIT]), LINE_LIMIT).rstrip()
        command = _COMMAND.match(line)
        if command and command[1] in ("endgroup", "debug"):
            continue
        if command:
            line = line[command.end() :]
            if command[1] == "group" and line.startswith("Run "):
                step_start = len(lines)
            if command[1] == "error" and line.startswith("Process completed with exit code"):
                lines.append(line)
                found_end = len(lines)
                break
        lines.append(line)
    step = lines[step_start:found_end]
    for head in _HEADS:
        start = next((index for index, line in enumerate(step) if head.search(line)), None)
        if start is not None:
            step = step[start:]
            break
    return clean("\n".join(step).strip(), limit)
