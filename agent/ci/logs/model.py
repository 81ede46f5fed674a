"""The reading of a log. Its texts come from outside: cleaned of control characters, bounded, never trusted."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from agent.guest.text import clean, identity, one_line

FAILURES = 500  # of one reading
MESSAGE = 500  # characters
TRACEBACK = 4000
PATH = 500
# Where runners of GitHub and containers check a repository out.
_ROOTS = re.compile(
    r"^(?:file://)?(?:/home/runner/work/[^/]+/[^/]+|/Users/runner/work/[^/]+/[^/]+|/__w/[^/]+/[^/]+|/github/workspace|/builds/[^/]+/[^/]+"
    r"|[A-Z]:[\\/]a[\\/][^\\/]+[\\/][^\\/]+)[\\/]"
)


class Cause(StrEnum):
    """The class of a failure."""

    TEST = "test"  # tests, their collection, their threshold of coverage
    LINT = "lint"
    FORMAT = "format"
    TYPES = "types"
    BUILD = "build"
    DEPENDENCY = "dependency"  # could not be resolved, found, built or is not installed
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out-of-memory"
    INFRASTRUCTURE = "infrastructure"  # not the repository's fault
    FLAKY = "flaky"  # the log shows that it passed on a rerun
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class LoggedFailure:
    """One failure that a tool reported.

    The id is a pytest node id, "suite > test" (JavaScript), "package TestX/sub" (Go), "module.Class.test" (unittest, Java),
    "path:line:col CODE" (linters, type checkers, compilers; without ":col" where the tool prints none), "path format"
    (formatters), or the requirement that cannot be met.
    """

    id: str
    message: str  # one line
    path: str = ""  # relative to the repository where the log shows its root
    line: int | None = None  # from 1
    traceback: str = ""
    tool: str = ""


@dataclass(frozen=True, slots=True)
class LogReading:
    cause: Cause
    evidence: str  # the line that decides the class; "" if none does
    failures: tuple[LoggedFailure, ...] = ()  # at most FAILURES
    tool: str = ""
    step: str = ""  # the title of the failing step, "pytest -q" for `Run pytest -q`
    exit_code: int | None = None


@dataclass(frozen=True, slots=True)
class ToolReport:
    """The report of one reader on a step: its failures, and the lines that later readers must skip.

    `settled`: the tool finished and printed its verdict.
    """

    tool: str
    cause: Cause
    evidence: str
    failures: tuple[LoggedFailure, ...] = ()
    owns: tuple[range, ...] = ()
    settled: bool = True


Reader = Callable[[Sequence[str]], tuple[ToolReport, ...]]
"""From the cleaned lines of a step ("" where another reader owns the line) to a tool's reports, in their order."""


def failure_ids(reading: LogReading) -> frozenset[str]:
    """The ids that failed in CI, to compare with those that a sandbox reproduces."""
    return frozenset(failure.id for failure in reading.failures)


def is_infrastructure(reading: LogReading) -> bool:
    """Whether the machine, the network or a service failed: such a run never reaches a model."""
    return reading.cause is Cause.INFRASTRUCTURE


def failure(
    name: str, message: str, tool: str, path: str = "", line: int | str | None = None, traceback: str | Sequence[str] = ""
) -> LoggedFailure:
    """A `LoggedFailure` with its texts cleaned and bounded."""
    whole = traceback if isinstance(traceback, str) else "\n".join(traceback[:200])
    number = int(line) if line is not None and len(str(line)) < 10 else None
    return LoggedFailure(
        identity(name.strip()), one_line(message, MESSAGE), relative(path), number, clean(whole, TRACEBACK).strip("\n"), tool
    )  # fmt: skip


def located(path: str, line: str, column: str | None, code: str, message: str, tool: str) -> LoggedFailure:
    """A finding at a place in a file, with the id "path:line:col CODE"."""
    path = relative(path)
    place = f"{path}:{line}:{column}" if column is not None else f"{path}:{line}"
    return failure(f"{place} {code}", message, tool, path, line)


def relative(path: str) -> str:
    """`path` relative to the repository, with slashes, where it is in a runner's usual folder."""
    path = clean(path[: 2 * PATH], PATH).strip().replace("\n", " ")
    found = _ROOTS.match(path)
    path = path[found.end() :].replace("\\", "/") if found else path
    return path.removeprefix("./")
