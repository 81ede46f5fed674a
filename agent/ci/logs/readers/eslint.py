"""Reads eslint's stylish form: a file, then its findings indented below."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agent.ci.logs.model import Cause, LoggedFailure, ToolReport, located

TOOL = "eslint"
_FILE = re.compile(r"^(?:/|[A-Za-z]:\\|\.?\w)\S.*\.\w{1,10}$")
_FINDING = re.compile(r"^ {1,6}(?P<line>\d{1,9}):(?P<column>\d{1,9}) +(?P<level>error|warning) +(?P<text>\S.*)$")
_COUNT = re.compile(r"^✖ \d+ problems? \(\d+ errors?, \d+ warnings?\)$")


def read(lines: Sequence[str]) -> tuple[ToolReport, ...]:
    count = next((line for line in lines if _COUNT.match(line)), None)
    if count is None:
        return ()
    failures: list[LoggedFailure] = []
    path, evidence = "", ""
    for line in lines:
        finding = _FINDING.match(line)
        if finding and path:
            if finding["level"] == "error":
                text, _, rule = finding["text"].rpartition("  ")
                entry = (text.strip(), rule) if text and " " not in rule else (finding["text"], "error")
                failures.append(located(path, finding["line"], finding["column"], entry[1], entry[0], TOOL))
                evidence = evidence or line.strip()
        elif _FILE.match(line):
            path = line
        elif not line.strip():
            path = ""
    return (ToolReport(TOOL, Cause.LINT, evidence or count, tuple(failures)),)
