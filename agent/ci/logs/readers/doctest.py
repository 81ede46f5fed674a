"""Reads `python -m doctest` and its runner: a section for each failed example."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agent.ci.logs.model import Cause, LoggedFailure, ToolReport, failure

TOOL = "doctest"
_RULE = "*" * 70
_PLACE = re.compile(r'^File "(?P<path>[^"\n]+)", line (?P<line>\d{1,9}), in (?P<name>\S.*)$')
_END = re.compile(r"^\*\*\*Test Failed\*\*\* \d+ failures?\.?")


def read(lines: Sequence[str]) -> tuple[ToolReport, ...]:
    failures: dict[str, LoggedFailure] = {}
    start = end = None
    for at, line in enumerate(lines):
        if (
            line == _RULE
            and at + 2 < len(lines)
            and lines[at + 2] == "Failed example:"
            and (place := _PLACE.match(lines[at + 1]))
        ):
            start = at if start is None else start
            body = []
            for below in lines[at + 2 : at + 100]:
                if below == _RULE:
                    break
                body.append(below)
            end = at + 2 + len(body)
            wanted = " ".join(" ".join(body[1:]).split())
            failures.setdefault(place["name"], failure(place["name"], wanted, TOOL, place["path"], place["line"], body))
        elif _END.match(line):
            end = at + 1
    if start is None or end is None:
        return ()
    evidence = next((line for line in lines[start:end] if _END.match(line)), lines[start + 1])
    return (ToolReport(TOOL, Cause.TEST, evidence, tuple(failures.values()), (range(start, end),)),)
