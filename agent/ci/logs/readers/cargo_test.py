"""Reads what the test harness of Rust prints: the list under "failures:" of each binary, and what each test had printed."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agent.ci.logs.model import Cause, Told, ToldFailure, failure

TOOL = "cargo test"
_RUNNING = re.compile(r"^running \d+ tests?$")
_RESULT = re.compile(r"^test result: (?P<word>ok|FAILED)\. \d+ passed; \d+ failed;")
_OUTPUT = re.compile(r"^---- (?P<name>\S.*) std(?:out|err) ----$")
_PANIC = re.compile(
    r"^thread '.{0,500}' (?:\(\d+\) )?panicked at (?:'(?P<old>.*)', )?(?P<path>[^\s:']+):(?P<line>\d{1,9}):\d+:?$"
)


def read(lines: Sequence[str]) -> tuple[Told, ...]:
    found = []
    start: int | None = None
    for at, line in enumerate(lines):
        if _RUNNING.match(line):
            start = at
        elif start is not None and (result := _RESULT.match(line)):
            failures = _failures(lines[start:at]) if result["word"] == "FAILED" else ()
            found.append(Told(TOOL, Cause.TEST, line if failures else "", failures, (range(start, at + 1),)))
            start = None
    return tuple(found)


def _failures(lines: Sequence[str]) -> tuple[ToldFailure, ...]:
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


def _failure(name: str, body: Sequence[str]) -> ToldFailure:
    panic = next(((at, found) for at, line in enumerate(body) if (found := _PANIC.match(line))), None)
    if panic is None:
        return failure(name, next((line for line in body if line.strip()), ""), TOOL, traceback=body)
    at, place = panic
    message = place["old"] or next((line for line in body[at + 1 :] if line.strip()), "")
    return failure(name, message, TOOL, place["path"], place["line"], body)
