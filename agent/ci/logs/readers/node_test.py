"""Reads the two formats of node's test runner: the tree of its spec reporter, and TAP (of any tool that nests it so)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agent.ci.logs.model import FAILURES, Cause, LoggedFailure, ToolReport, failure

TOOL = "node:test"
BODY = 100  # lines below a failure that are its own at most
DEPTH = 50  # suites within suites
_NODE = re.compile(r"^(?P<indent> *)(?P<mark>[▶✖✔﹣]) (?P<name>\S.*?)(?P<time> \(\d+(?:\.\d+)?ms\))?(?: # .*)?$")
_COUNT = re.compile(r"^(?:ℹ|#) (?P<what>tests|fail|pass|duration_ms) \d+(?:\.\d+)?$")
_TAP = re.compile(r"^(?P<indent> *)(?P<ok>not ok|ok) \d+(?: -)? (?P<name>\S.*)$")
_SUBTEST = re.compile(r"^(?P<indent> *)# Subtest: (?P<name>\S.*)$")
_LOCATION = re.compile(r"^ *location: '?(?P<path>[^'\n]+?):(?P<line>\d{1,9}):\d+'?$")
_AT = re.compile(r"^ *test at (?P<path>\S.*?):(?P<line>\d{1,9}):\d+$")
_DIRECTIVE = re.compile(r" # (?:SKIP|TODO|time=).*$", re.IGNORECASE)


def read(lines: Sequence[str]) -> tuple[ToolReport, ...]:
    for entry in (_tap(lines), _spec(lines)):
        if entry is not None:
            return (entry,)
    return ()


def _tap(lines: Sequence[str]) -> ToolReport | None:
    start = next((at for at, line in enumerate(lines) if line.startswith("TAP version ")), None)
    if start is None:
        return None
    above: list[tuple[int, str]] = []
    failures: list[LoggedFailure] = []
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
            if entry["ok"] == "not ok" and not re.search(r" # (?:SKIP|TODO)", entry["name"], re.IGNORECASE):
                deep = [*deep, indent] if indent not in deep else deep
                if not inner and len(failures) < FAILURES:
                    name = _DIRECTIVE.sub("", entry["name"]).replace("\\#", "#")
                    failures.append(_of_tap([*(each[1] for each in above), name], lines[at + 1 : at + BODY]))
        elif _COUNT.match(line):
            end = at
    evidence = next((line for line in lines[start : end + 1] if line.startswith("# fail ")), "")
    if not evidence and failures:
        evidence = next(line for line in lines[start:] if line.lstrip().startswith("not ok"))
    return ToolReport(TOOL, Cause.TEST, evidence, tuple(failures), (range(start, end + 1),))


def _of_tap(names: Sequence[str], below: Sequence[str]) -> LoggedFailure:
    body = []
    for line in below:
        if _TAP.match(line) or _SUBTEST.match(line):
            break
        body.append(line)
        if line.strip() == "...":
            break
    place = next((found for line in body if (found := _LOCATION.match(line))), None)
    error = next((at for at, line in enumerate(body) if line.strip().startswith("error:")), None)
    message = ""
    if error is not None:
        message = body[error].strip().removeprefix("error:").strip().strip("'\"")
        if message in ("|-", "|", ">-") and error + 1 < len(body):
            message = body[error + 1].strip()
    return failure(" > ".join(names), message, TOOL, place["path"] if place else "", place["line"] if place else None, body)


def _spec(lines: Sequence[str]) -> ToolReport | None:
    counts = [at for at, line in enumerate(lines) if _COUNT.match(line) and line.startswith("ℹ")]
    start = next((at for at, line in enumerate(lines) if _NODE.match(line)), None)
    if not counts or start is None or counts[0] < start:
        return None
    above: list[tuple[int, str]] = []
    failures: list[LoggedFailure] = []
    for at in range(start, counts[0]):
        node = _NODE.match(lines[at])
        if not node:
            continue
        indent, name = len(node["indent"]), node["name"]
        closes = (indent, name) in above
        above = [each for each in above if each[0] < indent]
        if node["mark"] == "▶" and not node["time"]:
            above = [*above[-DEPTH:], (indent, name)]
        elif node["mark"] == "✖" and not closes:
            failures.append(_of_spec([*(each[1] for each in above), name], lines[at + 1 : min(at + BODY, counts[0])]))
    evidence = next((lines[at] for at in counts if lines[at].startswith("ℹ fail")), lines[counts[0]])
    listed = [found for at in range(counts[-1], len(lines)) if (found := _AT.match(lines[at]))]
    if len(listed) == len(failures):  # the list at the end has the location of each test
        failures = [
            failure(each.id, each.message, TOOL, place["path"], place["line"], each.traceback)
            for each, place in zip(failures, listed, strict=True)
        ]
    return ToolReport(TOOL, Cause.TEST, evidence, tuple(failures), (range(start, len(lines)),))


def _of_spec(names: Sequence[str], below: Sequence[str]) -> LoggedFailure:
    body = []
    for line in below:
        if _NODE.match(line):
            break
        body.append(line)
    return failure(" > ".join(names), next((line for line in body if line.strip()), ""), TOOL, traceback=body)
