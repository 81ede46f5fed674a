"""Reads a Python script that ended with a traceback outside of any test runner."""

from __future__ import annotations

from collections.abc import Sequence

from agent.ci.logs.model import Cause, Told, failure, relative
from agent.ci.logs.readers.tracebacks import innermost

TOOL = "python"


def read(lines: Sequence[str]) -> tuple[Told, ...]:
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
    return (Told(TOOL, cause, message, (failure(name, message, TOOL, path, number, body),)),)
