"""Classifies a job log: the failing step, the reports of its tools, and which report decides the class.

The first that applies decides:
1. a test runner that finished and named failing tests: `test`, whatever they printed (a test that cannot connect still fails);
2. the job's runner, where it reports why it ended the job (time limit, shutdown, lost, disk);
3. a process killed for its memory or time (a runtime's message, or exit codes 137, 124, 143), or a test runner that timed out;
4. tools that point at lines of files (types, lint, format, build), in their order in the log;
5. a test run whose failures passed on a rerun: `flaky`;
6. the infrastructure table, for lines near the end of the step that no test runner owns;
7. installers that could not resolve: `dependency`, or `infrastructure` where the step reported network trouble before;
8. any other report, else `unknown`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agent.ci.logs.machine_signs import by_limits, by_runner, by_table, by_trouble
from agent.ci.logs.model import FAILURES, Cause, LoggedFailure, LogReading, ToolReport
from agent.ci.logs.readers import LAST, READERS
from agent.ci.logs.steps import LogStep, failed_step, read_steps
from agent.guest.text import clean

EVIDENCE = 500  # characters
_AT_PLACES = (Cause.TYPES, Cause.LINT, Cause.FORMAT, Cause.BUILD)


def read_log(log: str) -> LogReading:
    """The reading of a whole log (of a very long one: of its head and tail). Never raises for what a log holds."""
    step = failed_step(read_steps(log))
    reports = _read_reports(step.lines)
    cause, evidence, decider = _decide(step, reports)
    failures = _ordered(reports, decider)
    tool = decider.tool if decider else ""
    title = clean(step.title, 200).replace("\n", " ")
    return LogReading(
        cause, clean(evidence, EVIDENCE).replace("\n", " ").strip(), failures[:FAILURES], tool, title, step.exit_code
    )


def _read_reports(lines: Sequence[str]) -> tuple[list[ToolReport], list[str]]:
    """The reports of all readers, and the lines that none of them owns."""
    found: list[ToolReport] = []
    free = list(lines)
    for reader in READERS:
        for report in reader(free):
            found.append(report)
            for owned in report.owns:
                free[owned.start : owned.stop] = [""] * len(owned)
    if not any(report.failures for report in found):
        for reader in LAST:
            found += reader(free)
    return found, free


def _decide(step: LogStep, read: tuple[list[ToolReport], list[str]]) -> tuple[Cause, str, ToolReport | None]:
    reports, free = read
    naming = [each for each in reports if each.failures]

    def first(*causes: Cause, settled: bool = True) -> ToolReport | None:
        return next((each for each in naming if each.cause in causes and each.settled >= settled), None)

    tests = first(Cause.TEST)
    if tests:
        return Cause.TEST, tests.evidence, tests
    ended = by_runner(step.errors)
    if ended:
        return *ended, None
    hanging = next((each for each in reports if each.cause is Cause.TIMEOUT), None)
    if hanging:
        return Cause.TIMEOUT, hanging.evidence, hanging
    killed = by_limits(free, step.exit_code) or (by_limits(step.lines, None) if not naming else None)
    if killed:
        return *killed, None
    places = first(*_AT_PLACES)
    if places:
        return places.cause, places.evidence, places
    flaky = next((each for each in reports if each.cause is Cause.FLAKY), None)
    if flaky:
        return Cause.FLAKY, flaky.evidence, flaky
    sign = by_table(free)
    if sign:
        return Cause.INFRASTRUCTURE, sign, None
    dependency = next((each for each in reports if each.cause is Cause.DEPENDENCY), None)
    if dependency:
        trouble = by_trouble(free)
        return (Cause.INFRASTRUCTURE, trouble, None) if trouble else (Cause.DEPENDENCY, dependency.evidence, dependency)
    rest = first(*Cause, settled=False)
    if rest:
        return rest.cause, rest.evidence, rest
    return Cause.UNKNOWN, _last(step), None


def _last(step: LogStep) -> str:
    """The most telling line where no reader reports anything: one marked as an error, else the last that is not blank."""
    marked: Iterable[str] = (line for line in step.errors if not line.startswith("Process completed"))
    said = (line for line in reversed(step.lines) if line.strip() and line not in step.errors)
    return next(iter(marked), "") or next(said, "") or next(iter(step.errors), "")


def _ordered(read: tuple[list[ToolReport], list[str]], decider: ToolReport | None) -> tuple[LoggedFailure, ...]:
    """All failures, those of the deciding report first, each id of a tool once."""
    reports, _ = read
    if decider is None:  # the machine ended the job: keep what tests reported until then
        reports = [each for each in reports if each.cause is Cause.TEST]
    ranked = sorted(reports, key=lambda each: each is not decider)
    return tuple({(failure.tool, failure.id, failure.path): failure for each in ranked for failure in each.failures}.values())
