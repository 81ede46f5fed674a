"""Reads jest: "● suite › test" sections under "FAIL file"."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agent.ci.logs.model import Cause, LoggedFailure, ToolReport, failure, relative

TOOL = "jest"
_FILE = re.compile(r"^ ?(?P<word>FAIL|PASS) +(?P<path>\S.*?)(?: \([\d.]+ ?m?s\))?$")
_TITLE = re.compile(r"^  ● (?P<title>\S.*)$")
_FRAME = re.compile(r"^ +at (?:\S.{0,300} \()?(?P<path>[^\s():]+):(?P<line>\d{1,9}):\d+\)?$")
_COUNTS = re.compile(r"^(?:Tests|Test Suites): +(?:\d+ [a-z]+, )*\d+ total$")
_SUITE = "Test suite failed to run"
_NO_FAILURES = ("Console", "Validation Warning", "Deprecation Warning", "Multiple configurations", "process.exit")


def read(lines: Sequence[str]) -> tuple[ToolReport, ...]:
    counts = [at for at, line in enumerate(lines) if _COUNTS.match(line)]
    if not counts:
        return ()
    start = next((at for at, line in enumerate(lines[: counts[0]]) if _FILE.match(line)), None)
    if start is None:
        return ()
    failures: dict[tuple[str, str], LoggedFailure] = {}
    path = ""
    for at in range(start, counts[-1]):
        file = _FILE.match(lines[at])
        if file:
            path = relative(file["path"])
        title = _TITLE.match(lines[at])
        if title and path and not title["title"].startswith(_NO_FAILURES):
            entry = _failure(title["title"], path, _section(lines, at + 1, counts[-1]))
            failures.setdefault((entry.path, entry.id), entry)
    evidence = next((lines[at] for at in counts if "failed" in lines[at]), "")
    return (ToolReport(TOOL, Cause.TEST, evidence, tuple(failures.values()), (range(start, counts[-1] + 1),)),)


def _section(lines: Sequence[str], start: int, stop: int) -> list[str]:
    found = []
    for line in lines[start : min(stop, start + 200)]:
        if _TITLE.match(line) or _FILE.match(line) or line.startswith("Summary of all failing tests"):
            break
        found.append(line)
    return found


def _failure(title: str, path: str, body: Sequence[str]) -> LoggedFailure:
    message = next((line.strip() for line in body if line.strip()), "")
    frames = [found for line in body if (found := _FRAME.match(line))]
    own = next((found for found in frames if relative(found["path"]) == path), None)
    name = path if title == _SUITE else title.replace(" › ", " > ")
    return failure(name, message, TOOL, path, own["line"] if own else None, body)
