"""Reads Python's tracebacks for where an error was raised and what it says."""

from __future__ import annotations

import re
from collections.abc import Sequence

_FRAME = re.compile(r'^\s*File "(?P<path>[^"\n]+)", line (?P<line>\d{1,9})')
_ERROR = re.compile(
    r"^(?:[\w.]+\.)?[A-Za-z_]\w*(?:Error|Exception|Exit|Interrupt|Warning|Timeout|Failed|Skipped|Group|[A-Z]\w*)(?::|$)"
)
_FOREIGN = ("/site-packages/", "/dist-packages/", "/lib/python", "/lib64/python", "\\Lib\\", "<")


def innermost(lines: Sequence[str]) -> tuple[str, int | None, str]:
    """(path, line, message): the last frame outside of Python and its packages, and the line that names the error."""
    frames = [found for line in lines if (found := _FRAME.match(line))]
    own = [found for found in frames if not any(mark in found["path"] for mark in _FOREIGN)]
    message = next((line.strip() for line in reversed(lines) if _ERROR.match(line)), "")
    if not message:
        message = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return (own[-1]["path"], int(own[-1]["line"]), message) if own else ("", None, message)
