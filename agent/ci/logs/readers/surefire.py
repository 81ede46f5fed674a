"""Reads the results that Maven's surefire prints at its end ("[ERROR] Failures:", "[ERROR] Errors:")."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agent.ci.logs.model import Cause, LoggedFailure, ToolReport, failure

TOOL = "surefire"
_COUNTS = re.compile(r"^\[ERROR\] Tests run: \d+, Failures: \d+, Errors: \d+, Skipped: \d+$")
_ENTRY = re.compile(r"^\[ERROR\]   (?P<name>[\w$]+(?:\.[\w$\[\]]+|->[\w$.]+|»)*)(?::(?P<line>\d{1,9}))? (?P<message>.*)$")


def read(lines: Sequence[str]) -> tuple[ToolReport, ...]:
    end = next((at for at, line in enumerate(lines) if _COUNTS.match(line)), None)
    if end is None:
        return ()
    start = next((at for at, line in enumerate(lines[:end]) if "T E S T S" in line), 0)
    first = next((at for at in range(start, end) if lines[at] == "[INFO] Results:"), start)
    failures: dict[str, LoggedFailure] = {}
    for line in lines[first:end]:
        entry = _ENTRY.match(line)
        if entry:
            name = entry["name"].partition("->")[0]
            failures.setdefault(name, failure(name, entry["message"], TOOL, "", entry["line"]))
    return (ToolReport(TOOL, Cause.TEST, lines[end], tuple(failures.values()), (range(start, end + 1),)),)
