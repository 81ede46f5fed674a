"""Reads the results that Maven's surefire prints at its end ("[ERROR] Failures:", "[ERROR] Errors:")."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agent.ci.logs.model import Cause, Told, ToldFailure, failure

TOOL = "surefire"
_COUNTS = re.compile(r"^\[ERROR\] Tests run: \d+, Failures: \d+, Errors: \d+, Skipped: \d+$")
_TOLD = re.compile(r"^\[ERROR\]   (?P<name>[\w$]+(?:\.[\w$\[\]]+|->[\w$.]+|»)*)(?::(?P<line>\d{1,9}))? (?P<message>.*)$")


def read(lines: Sequence[str]) -> tuple[Told, ...]:
    end = next((at for at, line in enumerate(lines) if _COUNTS.match(line)), None)
    if end is None:
        return ()
    start = next((at for at, line in enumerate(lines[:end]) if "T E S T S" in line), 0)
    first = next((at for at in range(start, end) if lines[at] == "[INFO] Results:"), start)
    failures: dict[str, ToldFailure] = {}
    for line in lines[first:end]:
        told = _TOLD.match(line)
        if told:
            name = told["name"].partition("->")[0]
            failures.setdefault(name, failure(name, told["message"], TOOL, "", told["line"]))
    return (Told(TOOL, Cause.TEST, lines[end], tuple(failures.values()), (range(start, end + 1),)),)
