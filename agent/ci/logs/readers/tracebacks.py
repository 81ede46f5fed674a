"""Reads Python tracebacks: of a script outside any test runner, and for other readers the place and message of an error."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agent.ci.logs.model import Cause, ToolReport, failure, relative

TOOL = "python"
_FRAME = re.compile(r'^\s*File "(?P<path>[^"\n]+)", line (?P<line>\d{1,9})')
_ERROR = re.compile(
    r"^(?:[\w.]+\.)?[A-Za-z_]\w*(?:Error|Exception|Exit|Interrupt|Warning|Timeout|Failed|Skipped|Group|[A-Z]\w*)(?::|$)"
)
_FOREIGN = ("/site-packages/", "/dist-packages/", "/lib/python", "/lib64/python", "\\Lib\\", "<")


def read(lines: Sequence[str]) -> tuple[ToolReport, ...]:
    start = next((at for at in range(len(lines) - 1, -1, -1) if lines[at] == "Traceback (most recent call last):"), None)
    if start is None:
        return ()
    body = [lines[start]]
    for line in lines[start + 1 : start + 300]:
        body.append(line)
        if line and not line.startswith((" ", "\t")):
            break
    path, number, message = innermost(body)
    kind = message.partition(":")[0]
    cause = (
        Cause.DEPENDENCY
        if kind == "ModuleNotFoundError"
        else Cause.BUILD
        if kind in ("SyntaxError", "IndentationError")
        else Cause.UNKNOWN
    )
    name = f"{relative(path)}:{number} {kind}" if path else kind
    return (ToolReport(TOOL, cause, message, (failure(name, message, TOOL, path, number, body),)),)


def innermost(lines: Sequence[str]) -> tuple[str, int | None, str]:
    """(path, line, message): the last frame outside of Python and its packages, and the line that names the error."""
    frames = [found for line in lines if (found := _FRAME.match(line))]
    own = [found for found in frames if not any(mark in found["path"] for mark in _FOREIGN)]
    message = next((line.strip() for line in reversed(lines) if _ERROR.match(line)), "")
    if not message:
        message = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return (own[-1]["path"], int(own[-1]["line"]), message) if own else ("", None, message)
