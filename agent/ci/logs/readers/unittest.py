"""Reads unittest (also Django's runner and xmlrunner): a section for each failure, then the counts."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agent.ci.logs.model import Cause, LoggedFailure, ToolReport, failure
from agent.ci.logs.readers.tracebacks import innermost

TOOL = "unittest"
_RULE = "=" * 70
_LINE = "-" * 70
_TITLE = re.compile(r"^(?:FAIL|ERROR)(?: \[[\d.]+s\])?: (?P<name>\S+) \((?P<where>[^()\s]+)\)(?P<rest>.*)$")
_COUNTS = re.compile(r"^FAILED \((?:[a-z ]+=\d+(?:, )?)+\)$")
_RAN = re.compile(r"^Ran \d+ tests? in [\d.]+s$")


def read(lines: Sequence[str]) -> tuple[ToolReport, ...]:
    found: list[ToolReport] = []
    failures: dict[str, LoggedFailure] = {}
    start: int | None = None
    for at, line in enumerate(lines):
        if line == _RULE and at + 1 < len(lines) and (title := _TITLE.match(lines[at + 1])):
            start = at if start is None else start
            entry = _failure(title, lines[at + 2 : at + 200])
            failures.setdefault(entry.id, entry)
        elif _RAN.match(line):
            counts = next((at + n for n in range(1, 4) if at + n < len(lines) and _COUNTS.match(lines[at + n])), None)
            if failures or counts is not None:
                stop = (counts if counts is not None else at) + 1
                found.append(
                    ToolReport(TOOL, Cause.TEST, lines[stop - 1], tuple(failures.values()), (range(start or at, stop),))
                )
            failures, start = {}, None
    if failures and start is not None:
        found.append(
            ToolReport(TOOL, Cause.TEST, lines[start + 1], tuple(failures.values()), (range(start, len(lines)),), settled=False)
        )
    return tuple(found)


def _failure(title: re.Match[str], below: Sequence[str]) -> LoggedFailure:
    """Python 3.11 writes "test_a (module.Class.test_a)", older ones "test_a (module.Class)"; parameters of a subtest follow."""
    name, where, rest = title["name"], title["where"], title["rest"].strip()
    full = where if where.endswith("." + name) or name == where.rpartition(".")[2] else f"{where}.{name}"
    body = []
    started = False
    for line in below:
        if line == _RULE or (line == _LINE and started):
            break
        if line == _LINE:
            started = True
        elif started:
            body.append(line)
    path, number, message = innermost(body)
    return failure(f"{full} {rest}" if rest.startswith(("(", "[")) else full, message, TOOL, path, number, body)
