"""Records a traversal: the outcome of each step, the packages to install, the steps that a check needs before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from agent.ci.job.leg import Does, End, FailingStep, Leg, RunRequired, StepOutcome, TraversalResult
from agent.ci.job.steps import Additions, CurrentStep
from agent.ci.project.commands import only_looks, tools_of
from agent.ci.project.install_commands import merge
from agent.ci.workflows.shown_names import title_of
from agent.contract.verdicts import Check, CheckRun, Step
from sandbox.base import Packages


@dataclass(frozen=True, slots=True)
class CheckStep:
    """A step with a check, and the tool whose output decides it."""

    check: Check
    tool: str
    number: str
    may_fail: bool = False  # `continue-on-error`, or only a linter failed that waits for the tests
    seen: CheckRun | None = None  # its run in the replay, if it ran
    python: str | None = None  # the version that is set up for it


class StepRecorder:
    """The record of one traversal; the last outcome of a step counts."""

    def __init__(self, leg: Leg) -> None:
        self.leg = leg
        self.steps: dict[str, StepOutcome] = {}  # by the step's number
        self.notes: list[str] = list(leg.notes)
        self.packages = Packages(python=leg.python)
        self.runtimes: dict[str, str] = {}  # other languages: the requested version
        self.tried: list[CheckStep] = []  # steps that a later one may depend on
        self.absent_program = ""  # a program that a step called in vain

    def record(self, current: CurrentStep, does: Does, detail: str) -> None:
        self.steps[current.number] = StepOutcome(current.number, current.title, does, detail)

    def add(self, additions: Additions) -> None:
        packages = merge(self.packages, additions.packages)
        self.packages = replace(packages, python=additions.python or packages.python)
        self.notes += additions.notes
        self.runtimes |= dict([additions.runtime] if additions.runtime else [])

    def found(self, failing: CheckStep) -> FailingStep:
        """The failing step as a check, with the steps that it needs."""
        for one in self._before(failing):
            if _spares(one.check, failing.check):
                self.steps[one.number] = replace(self.steps[one.number], does="left out")
        return FailingStep(self.joined(failing), failing.tool, failing.seen)

    def joined(self, tried: CheckStep) -> Check:
        """The check preceded by the earlier steps, except those that it does not need."""
        kept = [one for one in self._before(tried) if not _spares(one.check, tried.check)]
        return replace(tried.check, before=tuple(map(_as_step, kept)))

    def _before(self, tried: CheckStep) -> list[CheckStep]:
        return list(takewhile(lambda one: one.number != tried.number, self.tried))

    def result(self, end: End, notes: Sequence[str]) -> TraversalResult:
        """`notes` come from rendering the steps."""
        packages = self.packages
        tests = next((one for one in self.tried if one.check.runs_tests), None)
        if tests is not None and not isinstance(end, FailingStep):
            # There is one environment, and what comes after the tests, such as their report, can have another version.
            packages = replace(packages, python=tests.python)
        if isinstance(end, RunRequired):  # a replay runs each step
            for one in self.tried:
                packages = merge(packages, tools_of(one.check, one.tool))
        reached = {number.partition(".")[0] for number in self.steps}
        rest = [
            StepOutcome(str(step.number), title_of(step), "not reached")
            for step in self.leg.job.steps
            if str(step.number) not in reached
        ]
        noted = tuple(dict.fromkeys([*self.notes, *notes]))
        return TraversalResult(
            end,
            (*self.steps.values(), *rest),
            packages,
            noted,
            dict(self.runtimes),
            tuple(one.check for one in self.tried),
            self.absent_program,
        )


def _spares(earlier: Check, check: Check) -> bool:
    """Whether a check can do without an earlier linter or test step. It needs the tests if it may report on their results."""
    return only_looks(earlier.command) and (earlier.reader == "findings" or check.runs_tests)


def _as_step(tried: CheckStep) -> Step:
    check = tried.check
    return Step(
        check.name, check.command, check.shell, check.cwd, check.env, check.timeout, outer=check.outer, may_fail=tried.may_fail
    )
