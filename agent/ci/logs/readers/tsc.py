"""Reads the errors of the TypeScript compiler, plain and pretty."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agent.ci.logs.model import Cause, ToolReport, located

TOOL = "tsc"
_PLAIN = re.compile(
    r"^(?P<path>[^\s(][^(\n]*)\((?P<line>\d{1,9}),(?P<column>\d{1,9})\): error (?P<code>TS\d{1,6}): (?P<text>.*)$"
)
_PRETTY = re.compile(
    r"^(?P<path>[^\s:][^:\n]*):(?P<line>\d{1,9}):(?P<column>\d{1,9}) - error (?P<code>TS\d{1,6}): (?P<text>.*)$"
)


def read(lines: Sequence[str]) -> tuple[ToolReport, ...]:
    found = [(line, entry) for line in lines if "error TS" in line and (entry := _PLAIN.match(line) or _PRETTY.match(line))]
    if not found:
        return ()
    failures = {
        each.id: each
        for _, at in found
        for each in (located(at["path"], at["line"], at["column"], at["code"], at["text"], TOOL),)
    }
    return (ToolReport(TOOL, Cause.TYPES, found[0][0], tuple(failures.values())),)
