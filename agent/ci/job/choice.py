"""Chooses the job that a maintainer would replay, if neither CI nor a person names one: a job that tests, on push.

Each job is read, as its name alone shows little: what its steps would run decides first. Its name decides between those that
test, as benchmarks, downstream projects and documentation are tested by the same tools.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import groupby, islice
from pathlib import PurePosixPath

from agent.ci.expressions import Value
from agent.ci.expressions.values import Files
from agent.ci.job.contexts import Run
from agent.ci.job.leg import Leg, TraversalResult
from agent.ci.job.selection import AnyJob, evaluator, event_of, leg_of
from agent.ci.job.traversal import read_steps
from agent.ci.project.commands import names_tests
from agent.ci.project.detection import Project
from agent.ci.workflows.document import WorkflowProblem
from agent.ci.workflows.matrix import MatrixLeg, leaves
from agent.ci.workflows.model import Job
from agent.ci.workflows.reuse import ResolvedJob, every_job
from agent.ci.workflows.workflow_file import read_workflow
from agent.contract import words
from agent.guest.text import one_line
from agent.report.endings import Ending

_FOLDER = ".github/workflows/"
_LEGS = 1000  # of one workflow
_JOBS = 40  # that are read
_NAMED = 8  # passed-over jobs that the note names
# Words in the names of jobs that a maintainer would not take for the tests.
_OTHER = re.compile(
    r"(?i)(?<![a-z])(?:docs?|docset|documentation|sphinx|bench(?:mark)?s?|perf(?:ormance)?|codspeed|asv|deploy|release|publish|pypi"
    r"|wheels?|sdist|dist|lint(?:ers?|ing)?|format|style|typing|types|typecheck|mypy|pyright|pre-?commit|codeql|zizmor|codespell"
    r"|coverage|integration|e2e|downstream|nightly|docker|fuzz(?:ing)?|pyodide|wasm|emscripten)(?![a-z])"
)
_TESTS = re.compile(r"(?i)(?<![a-z])(?:unit-?)?tests?(?![a-z])")
_FOREIGN = re.compile(r"(?i)windows|macos")
_VARIANT = re.compile(
    r"(?i)pypy|graalpy|^(?:py(?:thon)?-?)?2\.?[67]$|\d+t$|-dev$|alpha|beta|\drc\d*$"
    r"|(?<![a-z])(?:min|minimum|minimal|lowest|oldest|no)(?![a-z])"
)
_PYTHON = re.compile(r"(?<![\d.])(?:py(?:thon)?-?)?3\.?(\d{1,2})(?![\d.]*\d)")


class JobKind(IntEnum):
    """What a job is for, the best first."""

    TESTS = 0  # its steps run tests
    TESTS_BY_NAME = 1  # a command says "test", but no reader knows its results
    OTHER_TESTS = 2  # it tests, but its name says documentation, benchmark, downstream, …
    NO_TESTS = 3


@dataclass(frozen=True, slots=True)
class ReadJob:
    """One leg of a job, and what reading its steps showed."""

    leg: Leg
    result: TraversalResult
    kind: JobKind


@dataclass(frozen=True, slots=True)
class Choice:
    """`jobs` can be replayed, the best first. `passed_over` are the others with their reasons, for people.

    `unreadable` are workflows: file, line and reason.
    """

    jobs: tuple[ReadJob, ...] = ()
    passed_over: tuple[tuple[str, str], ...] = ()  # "docs of docs.yml", "tests nothing"
    unreadable: tuple[str, ...] = ()

    def note(self, chosen: ReadJob | None) -> str:
        """Which jobs were passed over and why, in one line; "" if there are none."""
        rest = [(title_of(job.leg), _REASONS[job.kind]) for job in self.jobs if job is not chosen]
        reasons = dict[str, list[str]]()
        for title, reason in (*rest, *self.passed_over):
            reasons.setdefault(reason, []).append(title)
        parts = [
            f"{', '.join(titles[:_NAMED])}{f' and {len(titles) - _NAMED} more' if len(titles) > _NAMED else ''} ({reason})"
            for reason, titles in reasons.items()
        ]
        return f"passed over: {'; '.join(parts)}" if parts else ""


_REASONS = {
    JobKind.TESTS: "another job with tests comes first",
    JobKind.TESTS_BY_NAME: "another job with tests comes first",
    JobKind.OTHER_TESTS: "its name says that it is not about the tests",
    JobKind.NO_TESTS: "it runs no tests",
}


def choose_job(asked: AnyJob, project: Project, files: Files, root: str, *, until: float) -> Choice:
    """The jobs of all workflows that commits start. The files' content makes it raise nothing."""
    read, passed, unreadable = list[ReadJob](), list(asked.refused), list[str]()
    refused = {title for title, _ in asked.refused}
    for path in sorted(path for path in project.texts if _is_workflow(path)):
        workflow = read_workflow(project.texts[path])
        if isinstance(workflow, WorkflowProblem):
            unreadable.append(f"{path}: {workflow}")
        elif not workflow.runs_on_commits:
            if "workflow_call" not in workflow.events:
                passed.append((PurePosixPath(path).name, "not started by commits"))
        else:
            run = replace(asked.run, event=event_of(workflow), workflow=workflow.name or path, root=root)
            legs = every_job(workflow, path, evaluator(run), project.texts.get, _guessed)
            for leg in islice(_best_legs(islice(legs, _LEGS), run), max(0, _JOBS - len(read) - len(passed))):
                if time.monotonic() > until:
                    break
                if title_of(leg) in refused:
                    continue
                result = read_steps(leg, project, files, until=until)
                if result.ending is not None or not (result.check or result.asks):
                    passed.append(
                        (title_of(leg), shortened(result.ending) if result.ending is not None else "it checks nothing")
                    )
                else:
                    read.append(ReadJob(leg, result, _kind(leg, result)))
    read.sort(key=lambda job: (job.kind, _is_foreign(job.leg.matrix, job.leg.job), not _TESTS.search(_names(job.leg))))
    return Choice(tuple(read), tuple(passed), tuple(unreadable))


def _is_workflow(path: str) -> bool:
    return path.startswith(_FOLDER) and "/" not in path.removeprefix(_FOLDER) and path.endswith((".yml", ".yaml"))


def _best_legs(found: Iterator[ResolvedJob], run: Run) -> Iterator[Leg]:
    """One leg of each job: ordinary values, on Linux, with the Python that is nearest to the one at hand."""
    for _, legs in groupby(found, lambda one: (*((call.job.id, call.leg) for call in one.calls), one.path, one.target.job.id)):
        yield leg_of(min(legs, key=_strangeness), run)


def _strangeness(found: ResolvedJob) -> tuple[bool, bool, bool, tuple[int, int]]:
    values = list(leaves(dict(found.target.leg.values)))
    pythons = [int(minor[1]) for value in values if (minor := _PYTHON.search(value))]
    return (
        any(_OTHER.search(value) for value in values),
        _is_foreign(found.target.leg.values, found.target.job),
        any(_VARIANT.search(value) for value in values),
        min(((abs(minor - sys.version_info.minor), -minor) for minor in pythons), default=(0, 0)),
    )


def _guessed(job: Job) -> MatrixLeg | None:
    """A leg of a matrix that only GitHub knows, if its unknown values are versions of Python."""
    if not isinstance(job.matrix, dict) or {"include", "exclude"} & {*job.matrix}:
        return None
    values = dict[str, Value]()
    for axis, written in job.matrix.items():
        first = written[0] if isinstance(written, Sequence) and not isinstance(written, str) and written else None
        if isinstance(first, (str, int, float)) and "${{" not in str(first):
            values[axis] = first
        elif re.match(r"(?i)py(?:thon)?(?![a-z])", axis):
            values[axis] = f"3.{sys.version_info.minor}"
        else:
            return None
    return MatrixLeg(values, tuple(leaves(values)))


def _kind(leg: Leg, result: TraversalResult) -> JobKind:
    checks = [*result.checks, *([result.check] if result.check is not None else [])]
    named = any(check.reader == "exit" and names_tests(check.command) for check in checks)
    if not named and not any(check.runs_tests for check in checks):
        return JobKind.NO_TESTS
    names, title = _names(leg), f"{PurePosixPath(leg.path).stem} {_names(leg)}"
    if _OTHER.search(title) and (_OTHER.search(leg.job.id) or not _TESTS.search(names)):
        return JobKind.OTHER_TESTS
    return JobKind.TESTS if any(check.runs_tests for check in checks) else JobKind.TESTS_BY_NAME


def _names(leg: Leg) -> str:
    return " ".join((leg.job.id, leg.job.name or "", *leaves(dict(leg.matrix))))


def _is_foreign(values: Mapping[str, Value], job: Job) -> bool:
    return any(_FOREIGN.search(value) for value in (*leaves(dict(values)), *job.labels))


def shortened(ending: Ending) -> str:
    """Why a job is passed over, for `Choice.passed_over`."""
    # A pinned action's whole hash would say nothing, and cut off the rest.
    return words.uncapitalized(re.sub(r"(@[0-9a-f]{8})[0-9a-f]{32}\b", r"\1", one_line(ending.reason.rstrip("."), 400)))


def title_of(leg: Leg) -> str:
    """ "docs of docs.yml"."""
    return f"{one_line(leg.job.id, 60)} of {PurePosixPath(leg.path).name}"
