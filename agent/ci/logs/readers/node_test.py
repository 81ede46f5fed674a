"""Reads the two formats of node's test runner: the tree of its spec reporter, and TAP (of any tool that nests it this way)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agent.ci.logs.model import FAILURES, Cause, ToolReport

DEPTH = 50  # nested suites
_NODE = re.compile(r"^(?P<indent> *)(?P<mark>[▶✖✔﹣]) (?P<name>\S.*?)(?P<time> \(\d+(?:\.\d+)?ms\))?(?: # .*)?$")
_COUNT = re.compile(r"^(?:ℹ|#) (?P<what>tests|fail|pass|duration_ms) \d+(?:\.\d+)?$")
_TAP = re.compile(r"^(?P<indent> *)(?P<ok>not ok|ok) \d+(?: -)? (?P<name>\S.*)$")
_SUBTEST = re.compile(r"^(?P<indent> *)# Subtest: (?P<name>\S.*)$")
_SKIPPED = re.compile(r" # (?:SKIP|TODO)", re.IGNORECASE)
_DIRECTIVE = re.compile(r" # (?:SKIP|TODO|time=).*$", re.IGNORECASE)


def read(lines: Sequence[str]) -> tuple[ToolReport, ...]:
    return _tap(lines) or _spec(lines)


def _tap(lines: Sequence[str]) -> tuple[ToolReport, ...]:
    start = next((at for at, line in enumerate(lines) if line.startswith("TAP version ")), None)
    if start is None:
        return ()
    above: list[tuple[int, str]] = []
    ids: list[str] = []
    deep: list[int] = []  # indents of failures so far: their parent is not a failure of its own
    end = start
    for at in range(start, len(lines)):
        line = lines[at]
        subtest, entry = _SUBTEST.match(line), _TAP.match(line)
        if subtest:
            above = [each for each in above if each[0] < len(subtest["indent"])]
            above = [*above[-DEPTH:], (len(subtest["indent"]), subtest["name"])]
        elif entry:
            end, indent = at, len(entry["indent"])
            above = [each for each in above if each[0] < indent]
            inner = any(each > indent for each in deep)
            deep = [each for each in deep if each <= indent]
            if entry["ok"] == "not ok" and not _SKIPPED.search(entry["name"]):
                deep = [*deep, indent] if indent not in deep else deep
                if not inner and len(ids) < FAILURES:
                    name = _DIRECTIVE.sub("", entry["name"]).replace("\\#", "#")
                    ids.append(" > ".join([*(each[1] for each in above), name]))
        elif _COUNT.match(line):
            end = at
    return (ToolReport(Cause.TEST, ids, range(start, end + 1)),)


def _spec(lines: Sequence[str]) -> tuple[ToolReport, ...]:
    count = next((at for at, line in enumerate(lines) if line.startswith("ℹ") and _COUNT.match(line)), None)
    start = next((at for at, line in enumerate(lines) if _NODE.match(line)), None)
    if count is None or start is None or count < start:
        return ()
    above: list[tuple[int, str]] = []
    ids: list[str] = []
    for node in filter(None, map(_NODE.match, lines[start:count])):
        indent, name = len(node["indent"]), node["name"]
        closes = (indent, name) in above
        above = [each for each in above if each[0] < indent]
        if node["mark"] == "▶" and not node["time"]:
            above = [*above[-DEPTH:], (indent, name)]
        elif node["mark"] == "✖" and not closes:
            ids.append(" > ".join([*(each[1] for each in above), name]))
    return (ToolReport(Cause.TEST, ids, range(start, len(lines))),)
