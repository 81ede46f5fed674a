"""Reads tools that run other tools: pre-commit's hooks, the summaries of tox and nox, make."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agent.checks.findings import read_finding
from agent.ci.logs.model import Cause, LoggedFailure, ToolReport, failure

_HOOK = re.compile(r"^(?P<name>\S.*?)\.{3,}(?:\([^)\n]{1,80}\))?(?P<word>Failed|Passed|Skipped)$")
_HOOK_ID = re.compile(r"^- hook id: (?P<id>\S+)$")
_TOX = re.compile(r"^  (?P<name>[\w.-]+): (?:FAIL|failed)\b.*$")
_NOX = re.compile(r"^nox > \* (?P<name>\S.*): failed$")
_MAKE = re.compile(r"^g?make(?:\[\d+\])?: \*\*\* \[(?P<name>[^\]\n]+)\] Error \d+")
_FORMATTERS = re.compile(
    r"\b(?:black|isort|format|fmt|prettier|whitespace|end-of-file|eof|autopep8|yapf|mixed-line|sort)\b|fixer|formatter",
    re.IGNORECASE,
)


def read_hooks(lines: Sequence[str]) -> tuple[ToolReport, ...]:
    """The failed hooks of pre-commit that changed files, or that printed no finding that another reader reads."""
    found = []
    heads = [
        (at, hook)
        for at, line in enumerate(lines)
        if line.endswith(("Failed", "Passed", "Skipped")) and (hook := _HOOK.match(line))
    ]
    for index, (at, hook) in enumerate(heads):
        named = _HOOK_ID.match(lines[at + 1]) if at + 1 < len(lines) else None
        if hook["word"] != "Failed" or named is None:
            continue
        stop = heads[index + 1][0] if index + 1 < len(heads) else min(len(lines), at + 400)
        body = lines[at + 1 : stop]
        changed = "- files were modified by this hook" in body
        if changed or not any(read_finding(line) or line.lstrip().startswith("-->") for line in body):
            message = next((line for line in body if line and not line.startswith("- ")), hook["name"])
            cause = Cause.FORMAT if changed or _FORMATTERS.search(named["id"]) else Cause.LINT
            found.append(
                ToolReport("pre-commit", cause, lines[at], (failure(named["id"], message, "pre-commit", traceback=body),))
            )
    return tuple(found)


def read_summaries(lines: Sequence[str]) -> tuple[ToolReport, ...]:
    """The failed environments, sessions or targets, where no tool in them could be read."""
    for tool, shape in (("tox", _TOX), ("nox", _NOX), ("make", _MAKE)):
        entries: dict[str, LoggedFailure] = {}
        evidence = ""
        for line in lines[-300:]:
            found = shape.match(line)
            if found:
                evidence = evidence or line.strip()
                entries.setdefault(found["name"], failure(f"{tool} {found['name']}", line, tool))
        if entries:
            return (ToolReport(tool, Cause.UNKNOWN, evidence, tuple(entries.values())),)
    return ()
