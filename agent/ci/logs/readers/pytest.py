"""Reads what pytest prints: its short summary, failure sections, verbose progress, and runs that end without any of these.

The last summary counts: a test can print a lookalike, but only before it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from itertools import islice

from agent.ci.logs.model import Cause, ToolReport, relative

_START = re.compile(r"^=+ test session starts =+$")
_SECTION = re.compile(r"^=+ ([A-Za-z][A-Za-z :-]{0,60}?) =+$")
_END = re.compile(
    r"^(?:=+ )?(?P<counts>(?:\d{1,9} [a-z]{1,20}, ){0,12}\d{1,9} [a-z]{1,20}|no tests (?:ran|collected))"
    r" in \d+\.\d\ds(?: \([\d:, days]+\))?(?: =+)?$"
)
_RED = re.compile(r"\b\d+ (?:failed|errors?)\b")
_TITLE = re.compile(r"^_+ (?P<title>\S.*) _+$")
_RULE = re.compile(r"^[_ ]+$")
_ENTRY = re.compile(r"^(?:FAILED|ERROR|SUBFAIL(?:ED)?(?:[(\[][^\n]{0,200}?[)\]])?) (?P<rest>\S.*)$")
_VERBOSE = re.compile(r" (?P<word>FAILED|ERROR|RERUN|PASSED)(?: \([^()]{0,200}\))?(?: {1,80}\[ {0,2}\d{1,3}%\])?$")
_XDIST = re.compile(r"^\[gw\d+\] (?:\[ *\d+%\] )?(?P<word>FAILED|ERROR|RERUN|PASSED) (?P<id>\S.*?) *$")
_CRASH = re.compile(r"^(?P<path>[^\s:>][^:\n]*|[A-Za-z]:[^:\n]+):\d+:")
_PHASES = ("ERROR at setup of ", "ERROR at teardown of ", "ERROR collecting ", "[doctest] ")
_CONFTEST = re.compile(r"^ImportError while loading conftest '(?P<path>[^'\n]+)'")
_USAGE = re.compile(r"^ERROR: (?:file or directory not found|not found): (?P<what>\S.*)$")
_ARGUMENTS = re.compile(r"^[\w.]+: error: (?P<what>\S.*)$")
_HANGS = re.compile(r"^(?P<before>.*?)\++ Timeout \++$")


def read(lines: Sequence[str]) -> tuple[ToolReport, ...]:
    found = (_read(lines[owns.start : owns.stop], end, owns) for owns, end in _sessions(lines))
    return tuple(report for report in found if report is not None)


def _sessions(lines: Sequence[str]) -> Iterator[tuple[range, str]]:
    """The lines of each session, and the line with its counts ("" if it was cut off)."""
    started: int | None = None
    for at, line in enumerate(lines):
        if _START.match(line):
            if started is not None:  # the one before was cut off
                yield range(started, at), ""
            started = at
        elif started is None and (
            _CONFTEST.match(line) or line.startswith(("INTERNALERROR> ", "ERROR: usage: ")) or _is_quiet(line)
        ):
            started = at
        elif line[:1] in "=0123456789n" and _END.match(line):
            stop = min(len(lines), at + 5) if "no tests" in line else at + 1  # the reason follows
            yield range(at if started is None else started, stop), line
            started = None
    if started is not None:
        yield range(started, len(lines)), ""


def _is_quiet(line: str) -> bool:
    """Whether a quiet pytest, which prints no session header, starts to report failures here."""
    section = _SECTION.match(line)
    return section is not None and section[1] in ("FAILURES", "ERRORS", "short test summary info")


def _read(lines: Sequence[str], end: str, owns: range) -> ToolReport | None:
    early = _early(lines)
    if early is not None:
        return ToolReport(Cause.TEST, [early], owns)
    hanging = None if end else _hanging(lines)
    if hanging is not None:
        return ToolReport(Cause.TIMEOUT, hanging, owns)
    verbose = _verbose(lines)
    if end and not _RED.search(end):
        if "rerun" in end:
            return ToolReport(Cause.FLAKY, [name for name, word in verbose if word == "RERUN"], owns)
        return ToolReport(Cause.TEST, (), owns)  # passed, or nothing ran
    red = [name for name, word in verbose if word in ("FAILED", "ERROR")]
    sections = _sections(lines)
    ids = _summary(lines, {title for title, _ in sections}, red) or red or [_id(*section) for section in sections]
    return ToolReport(Cause.TEST, ids, owns, settled=bool(end)) if ids or end else None


def _early(lines: Sequence[str]) -> str | None:
    """The id of a run that ended before any test: a broken conftest or plugin, or a missing path."""
    if any(line.startswith("INTERNALERROR>") for line in lines):
        return "INTERNALERROR"
    for at, line in enumerate(lines):
        if conftest := _CONFTEST.match(line):
            return relative(conftest["path"])
        usage = _USAGE.match(line) or _ARGUMENTS.match(line) if line.startswith(("ERROR", "pytest", "__main__")) else None
        if usage and any(
            "no tests" in each or each.startswith(("ERROR: usage", "usage:")) for each in lines[max(0, at - 8) : at + 8]
        ):
            return usage["what"]
    return None


def _hanging(lines: Sequence[str]) -> list[str] | None:
    """The test that was running when pytest-timeout ended the process: with a banner and stacks, but no summary."""
    for at, line in enumerate(islice(lines, 200_000)):
        banner = _HANGS.match(line) if line.endswith("+ Timeout ++++") or " Timeout +++" in line else None
        if banner:
            above = next((each for each in reversed(lines[max(0, at - 3) : at]) if each), "")
            name = banner["before"].strip() or above
            return [name] if "::" in name else []
    return None


def _verbose(lines: Sequence[str]) -> list[tuple[str, str]]:
    """Node ids with their verdicts from `-v`, in order."""
    found = []
    for line in lines:
        if "FAILED" in line or "ERROR" in line or "RERUN" in line:
            entry = _XDIST.match(line) if line.startswith("[gw") else _VERBOSE.search(line)
            name = (entry["id"] if line.startswith("[gw") else line[: entry.start()].strip()) if entry else ""
            if entry and ("::" in name or name.endswith(".py")) and not name.startswith(("FAILED ", "ERROR ")):
                found.append((name, entry["word"]))
    return found


def _sections(lines: Sequence[str]) -> list[tuple[str, list[str]]]:
    """The sections under ERRORS and FAILURES, in order: the title without its phase, and the lines."""
    found: list[tuple[str, list[str]]] = []
    inside = False
    for line in lines:
        if line.startswith("=") and (section := _SECTION.match(line)):
            inside = section[1] in ("FAILURES", "ERRORS")
        elif not inside:
            continue
        elif line.startswith("_") and not _RULE.match(line) and (title := _TITLE.match(line)):
            bare = title["title"]
            for phase in _PHASES:
                bare = bare.removeprefix(phase)
            found.append((bare, []))
        elif found:
            found[-1][1].append(line)
    return found


def _summary(lines: Sequence[str], titles: Collection[str], verbose: Collection[str]) -> list[str]:
    """The node ids of the last short summary."""
    start = next(
        (at for at in range(len(lines) - 1, -1, -1) if "short test summary info" in lines[at] and _SECTION.match(lines[at])),
        len(lines),
    )
    known = frozenset(verbose)
    return [_node_id(entry["rest"], titles, known) for line in lines[start + 1 :] if (entry := _ENTRY.match(line))]


def _node_id(rest: str, titles: Collection[str], verbose: Collection[str]) -> str:
    """A node id can contain " - ": split at an id that pytest names elsewhere, else at the first one outside brackets."""
    cuts = [*(found.start() for found in islice(re.finditer("(?= - )", rest), 20)), len(rest)]
    names = [rest[:cut].rstrip() for cut in cuts]
    known = next((name for name in names if name in verbose or _title(name) in titles), None)
    return known or next((name for name in names if name.count("[") <= name.count("]")), names[-1])


def _title(name: str) -> str:
    """The section title for a node id: "TestA.test_b[x::y]" for "a.py::TestA::test_b[x::y]"."""
    plain, bracket, parameters = name.partition("[")
    parts = plain.split("::")
    return ".".join(parts[1:]) + bracket + parameters if len(parts) > 1 else name


def _id(title: str, lines: Sequence[str]) -> str:
    """The id of a failure that no summary names; its file is the first one in its section."""
    plain, bracket, parameters = title.partition("[")
    if plain.endswith(".py"):
        return title
    first = next((crash for each in lines if (crash := _CRASH.match(each)) and crash["path"].endswith(".py")), None)
    name = plain.replace(".", "::") + bracket + parameters
    return f"{relative(first['path'])}::{name}" if first else name
