"""Reads the output of tools that run other tools (pre-commit, tox, nox, make), and tracebacks of scripts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile, zip_longest

from agent.checks.findings import FINDING
from agent.ci.logs.model import Cause, ToolReport, by_cause, relative

_HOOK = re.compile(r"^(?P<name>\S.*?)\.{3,}(?:\([^)\n]{1,80}\))?(?P<word>Failed|Passed|Skipped)$")
_HOOK_ID = re.compile(r"^- hook id: (?P<id>\S+)$")
_TOX = re.compile(r"^  (?P<name>[\w.-]+): (?:FAIL|failed)\b.*$")
_NOX = re.compile(r"^nox > \* (?P<name>\S.*): failed$")
_MAKE = re.compile(r"^g?make(?:\[\d+\])?: \*\*\* \[(?P<name>[^\]\n]+)\] Error \d+")
_FORMATTERS = re.compile(
    r"\b(?:black|isort|format|fmt|prettier|whitespace|end-of-file|eof|autopep8|yapf|mixed-line|sort)\b|fixer|formatter",
    re.IGNORECASE,
)
_TRACEBACK = "Traceback (most recent call last):"
_FRAME = re.compile(r'^\s*File "(?P<path>[^"\n]+)", line (?P<line>\d{1,9})')
_ERROR = re.compile(
    r"^(?:[\w.]+\.)?[A-Za-z_]\w*(?:Error|Exception|Exit|Interrupt|Warning|Timeout|Failed|Skipped|Group|[A-Z]\w*)(?::|$)"
)
_FOREIGN = ("/site-packages/", "/dist-packages/", "/lib/python", "/lib64/python", "\\Lib\\", "<")
_KINDS = {"ModuleNotFoundError": Cause.DEPENDENCY, "SyntaxError": Cause.BUILD, "IndentationError": Cause.BUILD}


def read_hooks(lines: Sequence[str]) -> tuple[ToolReport, ...]:
    """The failed hooks of pre-commit that changed files, or that printed no finding that another reader reads."""
    found = []
    heads = [
        (at, hook)
        for at, line in enumerate(lines)
        if line.endswith(("Failed", "Passed", "Skipped")) and (hook := _HOOK.match(line))
    ]
    for (at, hook), following in zip_longest(heads, heads[1:]):
        named = _HOOK_ID.match(lines[at + 1]) if at + 1 < len(lines) else None
        if hook["word"] != "Failed" or named is None:
            continue
        body = lines[at + 1 : following[0] if following else at + 400]
        changed = "- files were modified by this hook" in body
        if changed or not any(FINDING.match(line) or line.lstrip().startswith("-->") for line in body):
            cause = Cause.FORMAT if changed or _FORMATTERS.search(named["id"]) else Cause.LINT
            found.append((cause, named["id"]))
    return by_cause(found)


def read_summaries(lines: Sequence[str]) -> tuple[ToolReport, ...]:
    """The failed environments, sessions or targets, if the output of no tool in them could be read."""
    for tool, shape in (("tox", _TOX), ("nox", _NOX), ("make", _MAKE)):
        if ids := [f"{tool} {found['name']}" for line in lines[-300:] if (found := shape.match(line))]:
            return (ToolReport(Cause.UNKNOWN, ids),)
    return ()


def read_traceback(lines: Sequence[str]) -> tuple[ToolReport, ...]:
    """The last Python traceback: the last frame outside Python and installed packages, and the error's class."""
    start = next((at for at in range(len(lines) - 1, -1, -1) if lines[at] == _TRACEBACK), None)
    if start is None:
        return ()
    inside = list(takewhile(lambda line: not line or line.startswith((" ", "\t")), lines[start + 1 : start + 300]))
    body = lines[start : start + 2 + len(inside)]
    frames = (found for line in body if (found := _FRAME.match(line)))
    own = [found for found in frames if not any(mark in found["path"] for mark in _FOREIGN)]
    message = next((line.strip() for line in reversed(body) if _ERROR.match(line)), "")
    message = message or next(line.strip() for line in reversed(body) if line.strip())
    kind = message.partition(":")[0]
    id_ = f"{relative(own[-1]['path'])}:{own[-1]['line']} {kind}" if own else kind
    return (ToolReport(_KINDS.get(kind, Cause.UNKNOWN), [id_]),)
