"""Reads the list of failures that mocha's reporters (spec, dot, min, list …) end with."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from agent.ci.logs.model import Cause, LoggedFailure, ToolReport, failure, relative

TOOL = "mocha"
RUNS = 20  # of one step; each is read to its end
_FAILING = re.compile(r"^  \d+ failing$")
_PASSING = re.compile(r"^  \d+ passing \(\d+m?s\)$")
_NUMBER = re.compile(r"^  (?P<number>\d{1,6})\) (?P<title>\S.*)$")
_FRAME = re.compile(r"^ +at (?:\S.{0,300} \()?(?:file://)?(?P<path>[^\s():]+):(?P<line>\d{1,9}):\d+\)?$")


def read(lines: Sequence[str]) -> tuple[ToolReport, ...]:
    found: list[ToolReport] = []
    for at, line in enumerate(lines):
        if len(found) < RUNS and _FAILING.match(line) and any(_PASSING.match(above) for above in lines[max(0, at - 4) : at]):
            failures, stop = _failures(lines, at + 1)
            start = max(0, at - 4)
            found.append(ToolReport(TOOL, Cause.TEST, line.strip(), failures, (range(start, stop),)))
    return tuple(found)


def _failures(lines: Sequence[str], at: int) -> tuple[tuple[LoggedFailure, ...], int]:
    """A number, the titles of suites and test each deeper than the one before, the last with a colon; then the error.

    An error's text may stand at any depth: a section ends where the next number stands, the last one with its last frame.
    """
    starts: list[int] = []
    for index in range(at, len(lines)):
        number = _NUMBER.match(lines[index])
        if number and int(number["number"]) == len(starts) + 1:
            starts.append(index)
    found: list[LoggedFailure] = []
    stop = at
    for start, following in pairwise([*starts, len(lines)]):
        section = lines[start : min(following, start + 200)]
        if following == len(lines):
            frames = [index for index, line in enumerate(section) if _FRAME.match(line)]
            section = section[: frames[-1] + 1 if frames else 10]
        titles = [section[0].partition(") ")[2]]
        while not titles[-1].endswith(":") and len(titles) < min(30, len(section)):
            titles.append(section[len(titles)].strip())
        found.append(_failure(" > ".join(titles).removesuffix(":"), section[len(titles) :]))
        stop = start + len(section)
    return tuple(found), stop


def _failure(name: str, body: Sequence[str]) -> LoggedFailure:
    message = next((line.strip() for line in body if line.strip()), "")
    frames = [
        found
        for line in body
        if (found := _FRAME.match(line)) and "node_modules" not in found["path"] and "node:" not in found["path"]
    ]
    first = frames[0] if frames else None
    return failure(name, message, TOOL, relative(first["path"]) if first else "", first["line"] if first else None, body)
