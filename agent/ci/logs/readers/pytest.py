"""Reads what pytest prints: its short summary, the sections of failures, verbose progress, and its ends without any of them.

The last summary counts: a test can print a lookalike, but only before it.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from agent.ci.logs.model import Cause, LoggedFailure, ToolReport, failure, relative

TOOL = "pytest"
_START = re.compile(r"^=+ test session starts =+$")
_SECTION = re.compile(r"^=+ ([A-Za-z][A-Za-z :-]{0,60}?) =+$")
_END = re.compile(
    r"^(?:=+ )?(?P<counts>(?:\d{1,9} [a-z]{1,20}, ){0,12}\d{1,9} [a-z]{1,20}|no tests (?:ran|collected))"
    r" in \d+\.\d\ds(?: \([\d:, days]+\))?(?: =+)?$"
)
_RED = re.compile(r"\b\d+ (?:failed|errors?)\b")
_TITLE = re.compile(r"^_+ (?P<title>\S.*) _+$")
_RULE = re.compile(r"^[_ ]+$")
_ENTRY = re.compile(r"^(?P<word>FAILED|ERROR|SUBFAIL(?:ED)?(?:[(\[][^\n]{0,200}?[)\]])?) (?P<rest>\S.*)$")
_VERBOSE = re.compile(r" (?P<word>FAILED|ERROR|RERUN|PASSED)(?: \([^()]{0,200}\))?(?: {1,80}\[ {0,2}\d{1,3}%\])?$")
_XDIST = re.compile(r"^\[gw\d+\] (?:\[ *\d+%\] )?(?P<word>FAILED|ERROR|RERUN|PASSED) (?P<id>\S.*?) *$")
_CRASH = re.compile(r"^(?P<path>[^\s:>][^:\n]*|[A-Za-z]:[^:\n]+):(?P<line>\d+): ?(?P<what>.*)$")
_NATIVE = re.compile(r'^ +File "(?P<path>[^"\n]+)", line (?P<line>\d+)')
_PHASES = ("ERROR at setup of ", "ERROR at teardown of ", "ERROR collecting ")
_CONFTEST = re.compile(r"^ImportError while loading conftest '(?P<path>[^'\n]+)'")
_USAGE = re.compile(r"^ERROR: (?:file or directory not found|not found): (?P<what>\S.*)$")
_ARGUMENTS = re.compile(r"^[\w.]+: error: (?P<what>\S.*)$")
_HANGS = re.compile(r"^(?P<before>.*?)\++ Timeout \++$")
_FOREIGN = ("/site-packages/", "/lib/python", "\\site-packages\\", "<frozen", "<string>")


@dataclass(slots=True)
class _Block:
    """One section of ERRORS or FAILURES."""

    title: str
    lines: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Session:
    start: int
    stop: int  # the line after its last
    end: str = ""  # the line of its counts; "" where it was cut off
    lines: list[str] = field(default_factory=list)


def read(lines: Sequence[str]) -> tuple[ToolReport, ...]:
    return tuple(entry for session in _sessions(lines) if (entry := _read(session)) is not None)


def _sessions(lines: Sequence[str]) -> Iterator[_Session]:
    started: int | None = None
    for at, line in enumerate(lines):
        if _START.match(line):
            if started is not None:  # the one before was cut off
                yield _Session(started, at, "", list(lines[started:at]))
            started = at
        elif started is None and (
            _CONFTEST.match(line) or line.startswith(("INTERNALERROR> ", "ERROR: usage: ")) or _quiet(line)
        ):
            started = at
        elif line[:1] in "=0123456789n" and _END.match(line):
            first = started if started is not None else at
            stop = min(len(lines), at + 5) if "no tests" in line else at + 1  # the reason follows
            yield _Session(first, stop, line, list(lines[first:stop]))
            started = None
    if started is not None:
        yield _Session(started, len(lines), "", list(lines[started:]))


def _quiet(line: str) -> bool:
    """Whether a quiet pytest, which prints no session header, starts to report failures here."""
    section = _SECTION.match(line)
    return section is not None and section[1] in ("FAILURES", "ERRORS", "short test summary info")


def _read(session: _Session) -> ToolReport | None:
    lines, end = session.lines, session.end
    owns = (range(session.start, session.stop),)
    early = _early(lines)
    if early is not None:
        return ToolReport(TOOL, Cause.TEST, early.message, (early,), owns)
    hanging = None if end else _hanging(lines)
    if hanging is not None:
        return ToolReport(TOOL, Cause.TIMEOUT, hanging[1], hanging[0], owns)
    verbose = _verbose(lines)
    red = [name for name, word in verbose if word in ("FAILED", "ERROR")]
    if end and not _RED.search(end):
        again = tuple(dict.fromkeys(name for name, word in verbose if word == "RERUN"))
        if "rerun" in end:
            return ToolReport(TOOL, Cause.FLAKY, end, tuple(_failure(name, "passed on a rerun") for name in again), owns)
        return ToolReport(TOOL, Cause.TEST, "", (), owns)  # passed, or nothing ran
    blocks = _blocks(lines)
    entries = _summary(lines, blocks, set(red)) or [(name, "") for name in dict.fromkeys(red)]
    failures = _joined(entries, blocks) if entries else tuple(_of_block(block) for block in blocks)
    if not failures and not end:
        return None
    return ToolReport(TOOL, Cause.TEST, end or (failures[0].id if failures else ""), failures, owns, settled=bool(end))


def _early(lines: Sequence[str]) -> LoggedFailure | None:
    """A run that ended before any test: a broken conftest or plugin, or a missing path."""
    inner = [line.removeprefix("INTERNALERROR>").strip("\n") for line in lines if line.startswith("INTERNALERROR>")]
    if inner:
        path, number = _own_frame([each[1:] for each in inner])
        message = next((each.strip() for each in reversed(inner) if each.strip()), "")
        return failure("INTERNALERROR", f"INTERNALERROR: {message}", TOOL, path, number, inner)
    for at, line in enumerate(lines):
        conftest = _CONFTEST.match(line)
        if conftest:
            entry = list(lines[at : at + 60])
            error = next((each[1:].strip() for each in entry if each.startswith("E ")), line)
            path, number = _place(entry[1:])
            return failure(
                relative(conftest["path"]),
                error,
                TOOL,
                conftest["path"],
                number if path == relative(conftest["path"]) else None,
                entry,
            )
        usage = (
            _USAGE.match(line) or _ARGUMENTS.match(line)
            if line.startswith(("ERROR: ", "ERROR", "pytest", "__main__"))
            else None
        )
        if usage and any(
            "no tests" in each or each.startswith(("ERROR: usage", "usage:")) for each in lines[max(0, at - 8) : at + 8]
        ):
            return failure(usage["what"], line, TOOL)
    return None


def _hanging(lines: Sequence[str]) -> tuple[tuple[LoggedFailure, ...], str] | None:
    """The output of pytest-timeout when it ends the process: a banner, stacks, and no summary."""
    for at, line in enumerate(lines):
        banner = _HANGS.match(line) if line.endswith("+ Timeout ++++") or " Timeout +++" in line else None
        if banner:
            above = next((each for each in reversed(lines[max(0, at - 3) : at]) if each), "")
            name = banner["before"].strip() or above
            named = (_failure(name, "timed out"),) if "::" in name else ()
            return named, line[len(banner["before"]) :] + (f" in {name}" if named else "")
        if at > 200_000:
            break
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


def _blocks(lines: Sequence[str]) -> list[_Block]:
    """The sections under ERRORS and FAILURES, in order."""
    found: list[_Block] = []
    inside = False
    for line in lines:
        section = _SECTION.match(line) if line.startswith("=") else None
        if section:
            inside = section[1] in ("FAILURES", "ERRORS")
            continue
        if not inside:
            continue
        title = _TITLE.match(line) if line.startswith("_") and not _RULE.match(line) else None
        if title:
            found.append(_Block(title["title"]))
        elif found:
            found[-1].lines.append(line)
    return found


def _summary(lines: Sequence[str], blocks: list[_Block], verbose: set[str]) -> list[tuple[str, str]]:
    """(node id, message) of the last short summary."""
    start = next(
        (at for at in range(len(lines) - 1, -1, -1) if "short test summary info" in lines[at] and _SECTION.match(lines[at])),
        None,
    )
    if start is None:
        return []
    titles = {_bare(block.title) for block in blocks}
    found = []
    for line in lines[start + 1 :]:
        entry = _ENTRY.match(line)
        if entry:
            found.append(_split(entry["rest"], titles, verbose))
    return found


def _split(rest: str, titles: set[str], verbose: set[str]) -> tuple[str, str]:
    """A node id can contain " - ": split at an id that pytest names elsewhere, else at the first one outside brackets."""
    cuts = [*_separators(rest), len(rest)]
    names = [rest[:cut].rstrip() for cut in cuts]
    known = next((index for index, name in enumerate(names) if name in verbose or _title(name) in titles), None)
    if known is None:
        known = next((index for index, name in enumerate(names) if name.count("[") <= name.count("]")), len(names) - 1)
    return names[known], rest[cuts[known] + 3 :].strip()


def _separators(rest: str) -> list[int]:
    found: list[int] = []
    at = rest.find(" - ")
    while at != -1 and len(found) < 20:
        found.append(at)
        at = rest.find(" - ", at + 1)
    return found


def _title(name: str) -> str:
    """The title of the section of a node id: "TestA.test_b[x::y]" for "a.py::TestA::test_b[x::y]"."""
    plain, bracket, parameters = name.partition("[")
    parts = plain.split("::")
    return ".".join(parts[1:]) + bracket + parameters if len(parts) > 1 else name


def _bare(title: str) -> str:
    for phase in _PHASES:
        title = title.removeprefix(phase)
    return title.removeprefix("[doctest] ")


def _joined(entries: list[tuple[str, str]], blocks: list[_Block]) -> tuple[LoggedFailure, ...]:
    by_title: dict[str, deque[_Block]] = defaultdict(deque)
    for each in blocks:
        by_title[_bare(each.title)].append(each)
    failures: dict[str, LoggedFailure] = {}
    for name, message in entries:
        waiting = by_title.get(_title(name)) or by_title.get(name.partition("::")[0])
        # Of several with one title, take the one that points into the id's file; they have the summary's order.
        block: _Block | None = None
        if waiting:
            own = name.partition("::")[0]
            block = next((one for one in islice(waiting, 8) if any(own in line for line in one.lines)), waiting[0])
            waiting.remove(block)
        failures.setdefault(name, _failure(name, message, block))
    return tuple(failures.values())


def _failure(name: str, message: str, block: _Block | None = None) -> LoggedFailure:
    path, line = _place(block.lines) if block else ("", None)
    error = next((each[1:].strip() for each in block.lines if each.startswith("E  ")), "") if block else ""
    return failure(name, error or message, TOOL, path or name.partition("::")[0], line, block.lines if block else ())


def _of_block(block: _Block) -> LoggedFailure:
    """A failure that no summary names; its file is the first one in its section."""
    title = _bare(block.title)
    first = next((crash for each in block.lines if (crash := _CRASH.match(each)) and crash["path"].endswith(".py")), None)
    plain, bracket, parameters = title.partition("[")
    name = plain.replace(".", "::") + bracket + parameters
    if first and not plain.endswith(".py"):
        name = f"{relative(first['path'])}::{name}"
    return _failure(name if not plain.endswith(".py") else title, "", block)


def _place(lines: Sequence[str]) -> tuple[str, int | None]:
    """Where it crashed: the last "path:line: Error" or the last own frame before captured output."""
    last: tuple[str, int | None] = ("", None)
    for line in lines:
        if line.startswith("---") and "Captured" in line:
            break
        crash = _CRASH.match(line) if line[:1] not in ("E", ">", " ", "") or line[:1].isalpha() else None
        if crash and not line.startswith(("E ", "E\t")):
            last = (relative(crash["path"]), int(crash["line"][:9]))
    return last if last[0] else _own_frame(lines)


def _own_frame(lines: Sequence[str]) -> tuple[str, int | None]:
    frames = [found for line in lines if (found := _NATIVE.match(" " + line))]
    own = [found for found in frames if not any(mark in found["path"] for mark in _FOREIGN)] or frames
    return (relative(own[-1]["path"]), int(own[-1]["line"][:9])) if own else ("", None)
