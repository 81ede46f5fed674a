"""Reads the output of `go test`; a test that failed through its subtests is reported too, as Go does."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agent.ci.logs.model import Cause, LoggedFailure, ToolReport, failure

TOOL = "go test"
_FAILED = re.compile(r"^(?P<indent> *)--- FAIL: (?P<name>\S+) \([\d.]+s\)$")
_PACKAGE = re.compile(r"^(?P<word>FAIL|ok)\s+(?P<package>\S+)\s+(?:[\d.]+s|\(cached\)|\[[a-z ]+\])")
_RUN = re.compile(r"^\s*=== (?:RUN|CONT|PAUSE|NAME) +(?P<name>\S+)")
_PLACE = re.compile(r"^\s+(?P<path>[^\s:]+\.go):(?P<line>\d{1,9}): (?P<text>.*)$")
_PANIC = re.compile(r"^(?:panic: (?!test timed out)|fatal error: )(?P<what>.+)$")


def read(lines: Sequence[str]) -> tuple[ToolReport, ...]:
    names: dict[str, list[str]] = {}  # test of the current package → its output
    failures: list[LoggedFailure] = []
    start = end = None
    current, panic = "", ""
    late: list[str] = []
    evidence = ""
    for at, line in enumerate(lines):
        failed, run, package = _FAILED.match(line), _RUN.match(line), _PACKAGE.match(line)
        if failed or run:
            start = at if start is None else start
            current = failed["name"] if failed else run["name"] if run else ""
            names.setdefault(current, [])
            if failed:
                late.append(current)
                evidence = evidence or line.strip()
        elif package:
            if package["word"] == "FAIL":
                failures += [_failure(package["package"], name, names.get(name, []), panic) for name in late]
            if late or start is not None:
                end = at + 1
            names, late, current, panic = {}, [], "", ""
        elif current and len(names[current]) < 200:
            names[current].append(line)
            found = _PANIC.match(line)
            panic = panic or (line if found else "")
    if start is None or not (failures or end):
        return ()
    return (ToolReport(TOOL, Cause.TEST, evidence, tuple(failures), (range(start, end or len(lines)),)),)


def _failure(package: str, name: str, body: Sequence[str], panic: str) -> LoggedFailure:
    place = next((found for line in body if (found := _PLACE.match(line))), None)
    message = panic or (place["text"] if place else next((line.strip() for line in body if line.strip()), ""))
    return failure(f"{package} {name}", message, TOOL, place["path"] if place else "", place["line"] if place else None, body)
