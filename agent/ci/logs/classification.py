"""From a raw job log to its reading: the failing step, what each tool in it told, and which of them decides the class.

Who is believed, in this order:
1. a test runner that came to its end and named failing tests: the class is `test`, whatever those tests printed. A test that
   cannot connect, or whose output looks like a linter's, is still a failing test;
2. the runner of the job, where it says why it ended it (time limit, shutdown, lost, its disk);
3. a process killed for its memory or its time (the sentence of a runtime, or exit codes 137, 124, 143), and a test runner that
   says it ran out of time;
4. tools that point at places in files: types, lint, format, build, in the order in which they told;
5. a test run that says of itself that its failures passed when run again: `flaky`;
6. the infrastructure table, for lines that no test runner owns, near the end of the step;
7. installers that could not resolve: `dependency`, or `infrastructure` where the same step had told of a broken network;
8. whatever else was told, else `unknown`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agent.ci.logs.machine_signs import by_limits, by_runner, by_table, by_trouble
from agent.ci.logs.model import FAILURES, Cause, LogReading, Told, ToldFailure
from agent.ci.logs.readers import LAST, READERS
from agent.ci.logs.steps import Kept, Step, failed_step, read_steps
from agent.guest.text import clean

EVIDENCE = 500  # characters
_AT_PLACES = (Cause.TYPES, Cause.LINT, Cause.FORMAT, Cause.BUILD)


def read_log(log: str) -> LogReading:
    """The reading of a whole log (of a very long one: of its head and tail). Never raises for what a log holds."""
    step = failed_step(read_steps(log))
    told = _told(step.lines)
    cause, evidence, decider = _decide(step, told)
    failures = _ordered(told, decider)
    tool = decider.tool if decider else ""
    title = clean(step.title, 200).replace("\n", " ")
    return LogReading(
        cause, clean(evidence, EVIDENCE).replace("\n", " ").strip(), failures[:FAILURES], tool, title, step.exit_code
    )


class LogTap:
    """A log that arrives in pieces: `feed` each, then ask for the `reading`. Memory is bounded however long the log is."""

    def __init__(self) -> None:
        self._kept = Kept()

    def feed(self, piece: bytes) -> None:
        self._kept.feed(piece)

    def reading(self) -> LogReading:
        return read_log(self._kept.text())


def _told(lines: Sequence[str]) -> tuple[list[Told], list[str]]:
    """What the readers told, and the lines that none of them owns."""
    found: list[Told] = []
    free = list(lines)
    for reader in READERS:
        for told in reader(free):
            found.append(told)
            for owned in told.owns:
                free[owned.start : owned.stop] = [""] * len(owned)
    if not any(told.failures for told in found):
        for reader in LAST:
            found += reader(free)
    return found, free


def _decide(step: Step, read: tuple[list[Told], list[str]]) -> tuple[Cause, str, Told | None]:
    told, free = read
    naming = [each for each in told if each.failures]

    def first(*causes: Cause, settled: bool = True) -> Told | None:
        return next((each for each in naming if each.cause in causes and each.settled >= settled), None)

    tests = first(Cause.TEST)
    if tests:
        return Cause.TEST, tests.evidence, tests
    ended = by_runner(step.errors)
    if ended:
        return *ended, None
    hanging = next((each for each in told if each.cause is Cause.TIMEOUT), None)
    if hanging:
        return Cause.TIMEOUT, hanging.evidence, hanging
    killed = by_limits(free, step.exit_code) or (by_limits(step.lines, None) if not naming else None)
    if killed:
        return *killed, None
    places = first(*_AT_PLACES)
    if places:
        return places.cause, places.evidence, places
    flaky = next((each for each in told if each.cause is Cause.FLAKY), None)
    if flaky:
        return Cause.FLAKY, flaky.evidence, flaky
    sign = by_table(free)
    if sign:
        return Cause.INFRASTRUCTURE, sign, None
    dependency = next((each for each in told if each.cause is Cause.DEPENDENCY), None)
    if dependency:
        trouble = by_trouble(free)
        return (Cause.INFRASTRUCTURE, trouble, None) if trouble else (Cause.DEPENDENCY, dependency.evidence, dependency)
    rest = first(*Cause, settled=False)
    if rest:
        return rest.cause, rest.evidence, rest
    return Cause.UNKNOWN, _last(step), None


def _last(step: Step) -> str:
    """The line that says most where nothing was understood: what was marked as an error, else the last that is not blank."""
    marked: Iterable[str] = (line for line in step.errors if not line.startswith("Process completed"))
    said = (line for line in reversed(step.lines) if line.strip() and line not in step.errors)
    return next(iter(marked), "") or next(said, "") or next(iter(step.errors), "")


def _ordered(read: tuple[list[Told], list[str]], decider: Told | None) -> tuple[ToldFailure, ...]:
    """All that was told, what decides the class first, each id of a tool once."""
    told, _ = read
    if decider is None:  # the machine ended it: what tests had told until then is kept, as far as it goes
        told = [each for each in told if each.cause is Cause.TEST]
    ranked = sorted(told, key=lambda each: each is not decider)
    return tuple({(failure.tool, failure.id, failure.path): failure for each in ranked for failure in each.failures}.values())
