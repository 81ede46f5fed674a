"""What a log is reduced to. Every text in it comes from outside: cleaned of control characters, bounded, never trusted."""

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
    INFRASTRUCTURE = "infrastructure"  # nothing in the repository is at fault
    FLAKY = "flaky"  # the log itself says that it passed when it was run again
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ToldFailure:
    """One failure that a tool told of.

    The id is a pytest node id, "suite > test" (JavaScript), "package TestX/sub" (Go), "module.Class.test" (unittest, Java),
    "path:line:col CODE" (linters, type checkers, compilers; without ":col" where the tool tells none), "path format"
    (formatters), or the requirement that could not be met.
    """

    id: str
    message: str  # one line
    path: str = ""  # relative to the repository where the log lets that be known
    line: int | None = None  # from 1
    traceback: str = ""
    tool: str = ""


@dataclass(frozen=True, slots=True)
class LogReading:
    cause: Cause
    evidence: str  # the line that tells the class; "" where none does
    failures: tuple[ToldFailure, ...] = ()  # at most FAILURES
    tool: str = ""
    step: str = ""  # the title of the failing step, "pytest -q" for `Run pytest -q`
    exit_code: int | None = None


@dataclass(frozen=True, slots=True)
class Told:
    """What one reader made of a step: its failures, and which lines nobody after it may read.

    `settled` says that the tool itself came to its end and told its verdict: what else is in the log did not stop it.
    """

    tool: str
    cause: Cause
    evidence: str
    failures: tuple[ToldFailure, ...] = ()
    owns: tuple[range, ...] = ()
    settled: bool = True


Reader = Callable[[Sequence[str]], tuple[Told, ...]]
"""From the cleaned lines of a step ("" where another reader owns the line) to what a tool told, in its order."""


def told_ids(reading: LogReading) -> frozenset[str]:
    """The ids that CI saw fail, to hold against those that a sandbox reproduces."""
    return frozenset(failure.id for failure in reading.failures)


def is_infrastructure(reading: LogReading) -> bool:
    """Whether the machine, the network or a service is at fault: such a run never reaches a model."""
    return reading.cause is Cause.INFRASTRUCTURE


def failure(
    name: str, message: str, tool: str, path: str = "", line: int | str | None = None, traceback: str | Sequence[str] = ""
) -> ToldFailure:
    """A `ToldFailure` of texts from outside, each cleaned and bounded."""
    whole = traceback if isinstance(traceback, str) else "\n".join(traceback[:200])
    number = int(line) if line is not None and len(str(line)) < 10 else None
    return ToldFailure(
        identity(name.strip()), one_line(message, MESSAGE), relative(path), number, clean(whole, TRACEBACK).strip("\n"), tool
    )  # fmt: skip


def located(path: str, line: str, column: str | None, code: str, message: str, tool: str) -> ToldFailure:
    """A finding at a place in a file, with the id "path:line:col CODE"."""
    path = relative(path)
    place = f"{path}:{line}:{column}" if column is not None else f"{path}:{line}"
    return failure(f"{place} {code}", message, tool, path, line)


def relative(path: str) -> str:
    """`path` below the repository where a runner's usual folders let that be known, with slashes."""
    path = clean(path[: 2 * PATH], PATH).strip().replace("\n", " ")
    found = _ROOTS.match(path)
    path = path[found.end() :].replace("\\", "/") if found else path
    return path.removeprefix("./")
