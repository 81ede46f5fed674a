"""Reads test runners with simple output: unittest, doctest, jest, vitest, mocha, `go test`, `cargo test`, Maven's surefire."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise, takewhile

from agent.ci.logs.model import Cause, ToolReport, relative

MOCHA_RUNS = 20  # maximum in one step; each is read to its end
_COVERAGE = re.compile(
    r"^(?:(?:ERROR: |FAIL )(?:Required test coverage of|Coverage failure:)|Coverage failure: total of|"
    r"Jest: .{1,300} coverage threshold for .{1,80} not met|"
    r"ERROR: Coverage for .{1,80} does not meet (?:global )?threshold)"
)


def read_coverage(lines: Sequence[str]) -> tuple[ToolReport, ...]:
    """A missed coverage threshold of pytest-cov, coverage.py, jest, vitest or nyc."""
    return (ToolReport(Cause.TEST, ["coverage"]),) if any(map(_COVERAGE.match, lines)) else ()


_UNITTEST_TITLE = re.compile(r"^(?:FAIL|ERROR)(?: \[[\d.]+s\])?: (?P<name>\S+) \((?P<where>[^()\s]+)\)(?P<rest>.*)$")
_UNITTEST_COUNTS = re.compile(r"^FAILED \((?:[a-z ]+=\d+(?:, )?)+\)$")
_UNITTEST_RAN = re.compile(r"^Ran \d+ tests? in [\d.]+s$")


def read_unittest(lines: Sequence[str]) -> tuple[ToolReport, ...]:
    """unittest, also Django's runner and xmlrunner: a section for each failure, then the counts."""
    found: list[ToolReport] = []
    ids: list[str] = []
    start: int | None = None
    for at, line in enumerate(lines):
        if line == "=" * 70 and at + 1 < len(lines) and (title := _UNITTEST_TITLE.match(lines[at + 1])):
            start = at if start is None else start
            ids.append(_unittest_id(title))
        elif _UNITTEST_RAN.match(line):
            counts = next(
                (below for below in range(at + 1, min(at + 4, len(lines))) if _UNITTEST_COUNTS.match(lines[below])), None
            )
            if ids or counts is not None:
                stop = (at if counts is None else counts) + 1
                found.append(ToolReport(Cause.TEST, ids, range(at if start is None else start, stop)))
            ids, start = [], None
    if start is not None:
        found.append(ToolReport(Cause.TEST, ids, range(start, len(lines)), settled=False))
    return tuple(found)


def _unittest_id(title: re.Match[str]) -> str:
    """Python 3.11 writes "test_a (module.Class.test_a)", older ones "test_a (module.Class)"; parameters of a subtest follow."""
    name, where, rest = title["name"], title["where"], title["rest"].strip()
    full = where if where.endswith("." + name) or name == where.rpartition(".")[2] else f"{where}.{name}"
    return f"{full} {rest}" if rest.startswith(("(", "[")) else full


_DOCTEST_RULE = "*" * 70
_DOCTEST_PLACE = re.compile(r'^File "[^"\n]+", line \d{1,9}, in (?P<name>\S.*)$')
_DOCTEST_END = re.compile(r"^\*\*\*Test Failed\*\*\* \d+ failures?\.?")


def read_doctest(lines: Sequence[str]) -> tuple[ToolReport, ...]:
    """`python -m doctest` and its runner: a section for each failed example."""
    ids: list[str] = []
    start, end = None, 0
    for at, line in enumerate(lines):
        if line == _DOCTEST_RULE and lines[at + 2 : at + 3] == ["Failed example:"]:
            if place := _DOCTEST_PLACE.match(lines[at + 1]):
                start = at if start is None else start
                end = at + 2 + len(list(takewhile(lambda below: below != _DOCTEST_RULE, lines[at + 2 : at + 100])))
                ids.append(place["name"])
        elif _DOCTEST_END.match(line):
            end = at + 1
    return () if start is None else (ToolReport(Cause.TEST, ids, range(start, end)),)


_JEST_FILE = re.compile(r"^ ?(?P<word>FAIL|PASS) +(?P<path>\S.*?)(?: \([\d.]+ ?m?s\))?$")
_JEST_TITLE = re.compile(r"^  ● (?P<title>\S.*)$")
_JEST_COUNTS = re.compile(r"^(?:Tests|Test Suites): +(?:\d+ [a-z]+, )*\d+ total$")
_NO_FAILURES = ("Console", "Validation Warning", "Deprecation Warning", "Multiple configurations", "process.exit")


def read_jest(lines: Sequence[str]) -> tuple[ToolReport, ...]:
    """ "● suite › test" sections under "FAIL file"."""
    counts = [at for at, line in enumerate(lines) if _JEST_COUNTS.match(line)]
    start = next((at for at, line in enumerate(lines[: counts[0]]) if _JEST_FILE.match(line)), None) if counts else None
    if start is None:
        return ()
    ids: list[str] = []
    path = ""
    for line in lines[start : counts[-1]]:
        if file := _JEST_FILE.match(line):
            path = relative(file["path"])
        title = _JEST_TITLE.match(line)
        if title and path and not title["title"].startswith(_NO_FAILURES):
            ids.append(path if title["title"] == "Test suite failed to run" else title["title"].replace(" › ", " > "))
    return (ToolReport(Cause.TEST, ids, range(start, counts[-1] + 1)),)


_VITEST_TITLE = re.compile(
    r"^ ?FAIL +(?:\|[^|\n]{1,80}\| +)?(?P<path>[^\s>\[][^>\[\n]*?)(?: \[ (?P<suite>[^\]\n]+) \]| > (?P<name>\S.*))?$"
)
_VITEST_PART = re.compile(r"^⎯+ (?:Failed Tests|Failed Suites|Unhandled Errors?|Unhandled Rejections?) \d* ?⎯+")
_VITEST_COUNTS = re.compile(r"^ *(?:Test Files|Tests|Errors) +(?:no tests|\d+ (?:failed|passed|skipped|todo|errors?)\b.*)$")
_VITEST_RUN = re.compile(r"^ *(?:RUN|DEV) +v\d")


def read_vitest(lines: Sequence[str]) -> tuple[ToolReport, ...]:
    """ " FAIL  file > suite > test" sections under "Failed Tests" and "Failed Suites"."""
    start = next((at for at, line in enumerate(lines) if _VITEST_RUN.match(line)), None)
    end = next((at for at in range(len(lines) - 1, -1, -1) if _VITEST_COUNTS.match(lines[at])), None)
    if start is None or end is None or end < start:
        return ()
    part = next((at for at in range(start, end) if _VITEST_PART.match(lines[at])), end)
    titles = (title for line in lines[part:end] if (title := _VITEST_TITLE.match(line)))
    ids = [title["name"] or relative(title["path"]) for title in titles]
    return (ToolReport(Cause.TEST, ids, range(start, end + 1)),)


_MOCHA_FAILING = re.compile(r"^  \d+ failing$")
_MOCHA_PASSING = re.compile(r"^  \d+ passing \(\d+m?s\)$")
_MOCHA_NUMBER = re.compile(r"^  (?P<number>\d{1,6})\) \S")
_MOCHA_FRAME = re.compile(r"^ +at (?:\S.{0,300} \()?(?:file://)?[^\s():]+:\d{1,9}:\d+\)?$")


def read_mocha(lines: Sequence[str]) -> tuple[ToolReport, ...]:
    """The list of failures that mocha's reporters (spec, dot, min, list …) end with."""
    found: list[ToolReport] = []
    for at, line in enumerate(lines):
        if (
            len(found) < MOCHA_RUNS
            and _MOCHA_FAILING.match(line)
            and any(map(_MOCHA_PASSING.match, lines[max(0, at - 4) : at]))
        ):
            ids, stop = _mocha_ids(lines, at + 1)
            found.append(ToolReport(Cause.TEST, ids, range(max(0, at - 4), stop)))
    return tuple(found)


def _mocha_ids(lines: Sequence[str], at: int) -> tuple[list[str], int]:
    """A section: a number, the titles of suites and test (each indented deeper, the last with a colon), the error.

    An error's text can have any indentation: a section ends at the next number, the last one at its last frame.
    """
    starts: list[int] = []
    for index in range(at, len(lines)):
        number = _MOCHA_NUMBER.match(lines[index])
        if number and int(number["number"]) == len(starts) + 1:
            starts.append(index)
    found: list[str] = []
    stop = at
    for start, following in pairwise([*starts, len(lines)]):
        section = lines[start : min(following, start + 200)]
        if following == len(lines):
            frames = [index for index, line in enumerate(section) if _MOCHA_FRAME.match(line)]
            section = section[: frames[-1] + 1 if frames else 10]
        titles = [section[0].partition(") ")[2]]
        while not titles[-1].endswith(":") and len(titles) < min(30, len(section)):
            titles.append(section[len(titles)].strip())
        found.append(" > ".join(titles).removesuffix(":"))
        stop = start + len(section)
    return found, stop


_GO_FAILED = re.compile(r"^ *--- FAIL: (?P<name>\S+) \([\d.]+s\)$")
_GO_PACKAGE = re.compile(r"^(?P<word>FAIL|ok)\s+(?P<package>\S+)\s+(?:[\d.]+s|\(cached\)|\[[a-z ]+\])")
_GO_RUN = re.compile(r"^\s*=== (?:RUN|CONT|PAUSE|NAME) +\S")


def read_go(lines: Sequence[str]) -> tuple[ToolReport, ...]:
    """`go test`; a test that failed through its subtests is reported too, as Go does."""
    ids: list[str] = []
    late: list[str] = []  # failed tests of the package whose result follows
    start = end = None
    for at, line in enumerate(lines):
        failed = _GO_FAILED.match(line)
        if failed or _GO_RUN.match(line):
            start = at if start is None else start
            late += [failed["name"]] if failed else []
        elif package := _GO_PACKAGE.match(line):
            if package["word"] == "FAIL":
                ids += [f"{package['package']} {name}" for name in late]
            end = end if start is None else at + 1
            late = []
    return () if start is None or end is None else (ToolReport(Cause.TEST, ids, range(start, end)),)


_CARGO_RUNNING = re.compile(r"^running \d+ tests?$")
_CARGO_RESULT = re.compile(r"^test result: (?P<word>ok|FAILED)\. \d+ passed; \d+ failed;")
_CARGO_OUTPUT = re.compile(r"^---- \S.* std(?:out|err) ----$")


def read_cargo(lines: Sequence[str]) -> tuple[ToolReport, ...]:
    """Rust's test harness: the last list under "failures:" of each binary."""
    found = []
    start: int | None = None
    ids: list[str] = []
    listing = False
    for at, line in enumerate(lines):
        if _CARGO_RUNNING.match(line):
            start, ids, listing = at, [], False
        elif start is not None and (result := _CARGO_RESULT.match(line)):
            found.append(ToolReport(Cause.TEST, ids if result["word"] == "FAILED" else (), range(start, at + 1)))
            start, ids, listing = None, [], False
        elif line == "failures:":
            ids, listing = [], True
        elif _CARGO_OUTPUT.match(line):
            listing = False
        elif listing and line.startswith("    ") and line.strip():
            ids.append(line.strip())
    return tuple(found)


_SUREFIRE_COUNTS = re.compile(r"^\[ERROR\] Tests run: \d+, Failures: \d+, Errors: \d+, Skipped: \d+$")
_SUREFIRE_ENTRY = re.compile(r"^\[ERROR\]   (?P<name>[\w$]+(?:\.[\w$\[\]]+|->[\w$.]+|»)*)(?::\d{1,9})? ")


def read_surefire(lines: Sequence[str]) -> tuple[ToolReport, ...]:
    """The results at Maven's end ("[ERROR] Failures:", "[ERROR] Errors:")."""
    end = next((at for at, line in enumerate(lines) if _SUREFIRE_COUNTS.match(line)), None)
    if end is None:
        return ()
    start = next((at for at, line in enumerate(lines[:end]) if "T E S T S" in line), 0)
    first = next((at for at in range(start, end) if lines[at] == "[INFO] Results:"), start)
    entries = (entry for line in lines[first:end] if (entry := _SUREFIRE_ENTRY.match(line)))
    ids = [entry["name"].partition("->")[0] for entry in entries]
    return (ToolReport(Cause.TEST, ids, range(start, end + 1)),)
