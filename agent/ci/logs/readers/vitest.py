"""Reads vitest: " FAIL  file > suite > test" sections under "Failed Tests" and "Failed Suites"."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agent.ci.logs.model import Cause, LoggedFailure, ToolReport, failure, relative

TOOL = "vitest"
_TITLE = re.compile(
    r"^ ?FAIL +(?:\|[^|\n]{1,80}\| +)?(?P<path>[^\s>\[][^>\[\n]*?)(?: \[ (?P<suite>[^\]\n]+) \]| > (?P<name>\S.*))?$"
)
_PART = re.compile(r"^⎯+ (?P<part>Failed Tests|Failed Suites|Unhandled Errors?|Unhandled Rejections?) \d* ?⎯+")
_FRAME = re.compile(r"^ *❯ (?:\S.{0,300} )?(?P<path>[^\s:]+):(?P<line>\d{1,9}):\d+$")
_COUNTS = re.compile(r"^ *(?:Test Files|Tests|Errors) +(?:no tests|\d+ (?:failed|passed|skipped|todo|errors?)\b.*)$")
_RUN = re.compile(r"^ *(?:RUN|DEV) +v\d")


def read(lines: Sequence[str]) -> tuple[ToolReport, ...]:
    start = next((at for at, line in enumerate(lines) if _RUN.match(line)), None)
    counts = [at for at, line in enumerate(lines) if _COUNTS.match(line)]
    if start is None or not counts or counts[-1] < start:
        return ()
    failures: dict[tuple[str, str], LoggedFailure] = {}
    inside = False
    for at in range(start, counts[-1]):
        inside = inside or _PART.match(lines[at]) is not None
        title = _TITLE.match(lines[at]) if inside else None
        if title:
            entry = _failure(title, lines[at + 1 : at + 150])
            failures.setdefault((entry.path, entry.id), entry)
    evidence = next((lines[at] for at in reversed(counts) if "failed" in lines[at]), "")
    return (ToolReport(TOOL, Cause.TEST, evidence.strip(), tuple(failures.values()), (range(start, counts[-1] + 1),)),)


def _failure(title: re.Match[str], below: Sequence[str]) -> LoggedFailure:
    path = relative(title["path"])
    body = []
    for line in below:
        if line.startswith("⎯⎯"):
            break
        if not _TITLE.match(line):  # several tests can share one error
            body.append(line)
    frames = [found for line in body if (found := _FRAME.match(line))]
    own = next((found for found in frames if relative(found["path"]) == path), None)
    message = next((line for line in body if line.strip()), "")
    return failure(title["name"] or path, message, TOOL, path, own["line"] if own else None, body)
