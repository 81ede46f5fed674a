"""The reading of a log. Its texts come from outside: cleaned of control characters, bounded, never trusted."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from agent.guest.text import clean

FAILURES = 500  # maximum for one reading
PATH = 500
# The folders into which CI runners and containers check a repository out.
_ROOTS = re.compile(
    r"^(?:file://)?(?:/home/runner/work/[^/]+/[^/]+|/Users/runner/work/[^/]+/[^/]+|/__w/[^/]+/[^/]+|/github/workspace|/builds/[^/]+/[^/]+"
    r"|[A-Z]:[\\/]a[\\/][^\\/]+[\\/][^\\/]+)[\\/]"
)


class Cause(StrEnum):
    """The class of a failure."""

    TEST = "test"  # tests, their collection, or a coverage threshold
    LINT = "lint"
    FORMAT = "format"
    TYPES = "types"
    BUILD = "build"
    DEPENDENCY = "dependency"  # cannot be resolved, found or built, or is not installed
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out-of-memory"
    INFRASTRUCTURE = "infrastructure"  # not the repository's fault
    FLAKY = "flaky"  # the log shows that it passed on a rerun
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class LogReading:
    """What a log shows. An id names a failure, to compare with those that a sandbox reproduces.

    It is a pytest node id, "suite > test" (JavaScript), "package TestX/sub" (Go), "module.Class.test" (unittest, Java),
    "path:line:col CODE" (linters, type checkers, compilers; without ":col" if the tool prints none), "path format"
    (formatters), or the requirement that cannot be met. Paths are relative if the log shows the repository's root.
    """

    cause: Cause
    ids: tuple[str, ...] = ()  # at most FAILURES
    evidence: str = ""  # the line that shows it, if the machine is the cause


@dataclass(frozen=True, slots=True, eq=False)
class ToolReport:
    """The report of one reader on a step: the ids of its failures, and the lines that later readers must skip.

    `settled`: the tool finished and printed its verdict.
    """

    cause: Cause
    ids: Sequence[str] = ()
    owns: range = range(0)
    settled: bool = True


Reader = Callable[[Sequence[str]], tuple[ToolReport, ...]]
"""Turns the cleaned lines of a step ("" if another reader owns the line) into a tool's reports, in order."""


def by_cause(found: Iterable[tuple[Cause, str]]) -> tuple[ToolReport, ...]:
    """One report for each cause, with its ids, in their order."""
    ids: dict[Cause, list[str]] = {}
    for cause, id_ in found:
        ids.setdefault(cause, []).append(id_)
    return tuple(ToolReport(cause, names) for cause, names in ids.items())


def located(at: re.Match[str], code: str) -> str:
    """The id "path:line:col CODE" of a finding: `at` has the groups `path` and `line`, and may have `column`."""
    column = at.groupdict().get("column")
    place = f"{relative(at['path'])}:{at['line']}" + ("" if column is None else f":{column}")
    return f"{place} {code}"


def relative(path: str) -> str:
    """`path` relative to the repository, with slashes, if it is in a runner's usual folder."""
    path = clean(path[: 2 * PATH], PATH).strip().replace("\n", " ")
    found = _ROOTS.match(path)
    path = path[found.end() :].replace("\\", "/") if found else path
    return path.removeprefix("./")
