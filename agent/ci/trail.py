"""What a walk leaves behind: what became of each step, what must be installed, what a check has before it. Decides no end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from agent.ci.job.leg import Asked, Does, End, Found, Leg, Told, Walked
from agent.ci.project.commands import only_looks, tools_of
from agent.ci.project.install_commands import merge
from agent.ci.steps import Gains, Here
from agent.ci.workflows.step_names import title_of
from agent.contract.verdicts import Check, CheckRun, Step
from sandbox.base import Packages


@dataclass(frozen=True, slots=True)
class Tried:
    """A step that does something, and the program that tells how it went."""

    check: Check
    tool: str
    number: str
    may_fail: bool = False  # `continue-on-error`
    seen: CheckRun | None = None  # red, where it was run


class Trail:
    """Of one walk. The last word on a step counts."""

    def __init__(self, leg: Leg) -> None:
        self.leg = leg
        self.told: dict[str, Told] = {}  # by the step's number
        self.notes: list[str] = list(leg.notes)
        self.packages = Packages(python=leg.python)
        self.runtimes: dict[str, str] = {}  # of other languages: the version that is asked for
        self.tried: list[Tried] = []  # steps that a later one may need before it

    def tell(self, here: Here, does: Does, detail: str) -> None:
        self.told[here.number] = Told(here.number, here.title, does, detail)

    def gain(self, gains: Gains) -> None:
        packages = merge(self.packages, gains.packages)
        self.packages = replace(packages, python=gains.python or packages.python)
        self.notes += gains.notes
        self.runtimes |= dict([gains.runtime] if gains.runtime else [])

    def found(self, failing: Tried) -> Found:
        """As a check, with what it needs before it."""
        for one in self._before(failing):
            if _spares(one.check, failing.check):
                self.told[one.number] = replace(self.told[one.number], does="left out")
        return Found(self.joined(failing), failing.tool, failing.seen)

    def joined(self, tried: Tried) -> Check:
        """With the steps before it in one run. Whoever only looks leaves nothing for it, save what another tool reports on."""
        kept = [one for one in self._before(tried) if not _spares(one.check, tried.check)]
        return replace(tried.check, before=tuple(map(_as_step, kept)))

    def _before(self, tried: Tried) -> list[Tried]:
        return list(takewhile(lambda one: one.number != tried.number, self.tried))

    def walked(self, end: End, notes: Sequence[str]) -> Walked:
        """`notes` are what the texts of the steps have to say beside."""
        packages = self.packages
        if isinstance(end, Asked):  # each step is run to see it
            for one in self.tried:
                packages = merge(packages, tools_of(one.check, one.tool))
        reached = {number.partition(".")[0] for number in self.told}
        rest = [
            Told(str(step.number), title_of(step), "not reached")
            for step in self.leg.job.steps
            if str(step.number) not in reached
        ]
        noted = tuple(dict.fromkeys([*self.notes, *notes]))
        return Walked(end, (*self.told.values(), *rest), packages, noted, dict(self.runtimes))


def _spares(earlier: Check, check: Check) -> bool:
    """Whether a check can do without the tests or findings of a step before it: what another tool reports on is needed."""
    return only_looks(earlier.command) and (earlier.reader == "findings" or check.runs_tests)


def _as_step(tried: Tried) -> Step:
    check = tried.check
    return Step(
        check.name, check.command, check.shell, check.cwd, check.env, check.timeout, outer=check.outer, may_fail=tried.may_fail
    )
