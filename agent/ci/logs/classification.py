"""Classifies a job log: the failing step, the reports of its tools, and which report decides the class.

The first that applies decides:
1. a test runner that finished and named failing tests: `test`, whatever they printed (a test that cannot connect still fails);
2. the job's runner, if it reports why it ended the job (time limit, shutdown, lost, disk);
3. a process killed for its memory or time (a runtime's message, or exit codes 137, 124, 143), or a test runner that timed out;
4. tools that point at lines of files (types, lint, format, build), in their order in the log;
5. a test run whose failures passed on a rerun: `flaky`;
6. the infrastructure table, for lines near the end of the step that no test runner owns;
7. installers that could not resolve: `dependency`, or `infrastructure` if the step reported network trouble before;
8. any other report, else `unknown`.
"""

from __future__ import annotations

from collections.abc import Sequence

from agent.ci.logs.machine_signs import by_limits, by_runner, by_table, by_trouble
from agent.ci.logs.model import FAILURES, Cause, LogReading, ToolReport
from agent.ci.logs.readers import LAST, READERS
from agent.ci.logs.steps import LogStep, failed_step, read_steps
from agent.guest.text import clean, identity

EVIDENCE = 500  # characters
_AT_PLACES = (Cause.TYPES, Cause.LINT, Cause.FORMAT, Cause.BUILD)


def read_log(log: str) -> LogReading:
    """The reading of a whole log (of a very long one: of its head and tail). Never raises because of its content."""
    step = failed_step(read_steps(log))
    reports, free = _read_reports(step.lines)
    decider, evidence = _decide(step, reports, free)
    ranked = sorted(reports, key=lambda each: each is not decider)
    if decider not in reports:  # the machine ended the job: keep what tests reported until then
        ranked = [each for each in reports if each.cause is Cause.TEST]
    ids = dict.fromkeys(identity(id_.strip()) for each in ranked for id_ in each.ids)
    return LogReading(decider.cause, tuple(ids)[:FAILURES], clean(evidence, EVIDENCE).replace("\n", " ").strip())


def _read_reports(lines: Sequence[str]) -> tuple[list[ToolReport], list[str]]:
    """The reports of all readers, and the lines that none of them owns."""
    found: list[ToolReport] = []
    free = list(lines)
    for reader in READERS:
        for report in reader(free):
            found.append(report)
            free[report.owns.start : report.owns.stop] = [""] * len(report.owns)
    if not any(report.ids for report in found):
        for reader in LAST:
            found += reader(free)
    return found, free


def _decide(step: LogStep, reports: Sequence[ToolReport], free: Sequence[str]) -> tuple[ToolReport, str]:
    """The report that decides, or a report that blames the machine, with its evidence."""
    naming = [each for each in reports if each.ids]

    def first(*causes: Cause, among: Sequence[ToolReport] = naming, settled: bool = True) -> ToolReport | None:
        return next((each for each in among if each.cause in causes and each.settled >= settled), None)

    if tests := first(Cause.TEST):
        return tests, ""
    if ended := by_runner(step.errors):
        return ToolReport(ended[0]), ended[1]
    if hanging := first(Cause.TIMEOUT, among=reports):
        return hanging, ""
    killed = by_limits(free, step.exit_code) or (by_limits(step.lines, None) if not naming else None)
    if killed:
        return ToolReport(killed), ""
    if decider := first(*_AT_PLACES) or first(Cause.FLAKY, among=reports):
        return decider, ""
    if sign := by_table(free):
        return ToolReport(Cause.INFRASTRUCTURE), sign
    if dependency := first(Cause.DEPENDENCY, among=reports):
        trouble = by_trouble(free)
        return (ToolReport(Cause.INFRASTRUCTURE), trouble) if trouble else (dependency, "")
    return first(*Cause, settled=False) or ToolReport(Cause.UNKNOWN), ""
