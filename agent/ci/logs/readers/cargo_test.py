"""Reads Rust's test harness: the list under "failures:" of each binary, and the output of each failed test."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agent.checks.rust import read_panic
from agent.ci.logs.model import Cause, LoggedFailure, ToolReport, failure

TOOL = "cargo test"
_RUNNING = re.compile(r"^running \d+ tests?$")
_RESULT = re.compile(r"^test result: (?P<word>ok|FAILED)\. \d+ passed; \d+ failed;")
_OUTPUT = re.compile(r"^---- (?P<name>\S.*) std(?:out|err) ----$")


def read(lines: Sequence[str]) -> tuple[ToolReport, ...]:
    found = []
    start: int | None = None
    for at, line in enumerate(lines):
        if _RUNNING.match(line):
            start = at
        elif start is not None and (result := _RESULT.match(line)):
            failures = _failures(lines[start:at]) if result["word"] == "FAILED" else ()
            found.append(ToolReport(TOOL, Cause.TEST, line if failures else "", failures, (range(start, at + 1),)))
            start = None
    return tuple(found)


def _failures(lines: Sequence[str]) -> tuple[LoggedFailure, ...]:
    outputs: dict[str, list[str]] = {}
    names: list[str] = []
    body: list[str] = []
    listing = False
    for line in lines:
        output = _OUTPUT.match(line)
        if line == "failures:":
            listing, names, body = True, [], []
        elif output:
            listing, body = False, outputs.setdefault(output["name"], [])
        elif listing and line.startswith("    ") and line.strip():
            names.append(line.strip())
        else:
            body.append(line)
    return tuple(_failure(name, outputs.get(name, [])) for name in names)


def _failure(name: str, body: Sequence[str]) -> LoggedFailure:
    message, frame = read_panic(body)
    return failure(name, message, TOOL, frame.path if frame else "", frame.line if frame else None, body)
