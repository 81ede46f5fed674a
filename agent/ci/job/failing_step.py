"""Which step of a job failed: what CI reports about its steps, and what to look for where that is not enough. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from agent.ci.expressions import Unknown
from agent.ci.job.leg import Leg
from agent.ci.workflows.document import WorkflowProblem
from agent.ci.workflows.shown_names import align, find_step


class Target(Enum):
    """What a traversal looks for."""

    NAMED = "the step that CI names"
    WITHIN = "the first failing step of the action that CI names"
    TESTS = "the first step with tests, as the one that CI names only installs"
    RED = "the first failing step, as CI names none"

    @property
    def is_any_red(self) -> bool:
        """Whether any step could be the failing one, even one that is left out."""
        return self in (Target.WITHIN, Target.RED)


@dataclass(frozen=True, slots=True)
class ReportedSteps:
    """What CI reports about the job's own steps, by their numbers."""

    conclusions: Mapping[int, str] = field(default_factory=dict)
    failing: int | None = None
    note: str = ""  # why the name of the failing step matches nothing

    def runs(self, number: int) -> bool | None:
        """Whether the step ran; None where CI does not say."""
        return self.conclusions[number] != "skipped" if number in self.conclusions else None


def match_steps(leg: Leg, render: Callable[[str], str | Unknown]) -> ReportedSteps:
    """Match the steps that CI shows with those of the file; `render` evaluates a name (and may raise `ExpressionError`)."""
    names = [name for name, _ in leg.conclusions]
    conclusions = {number: leg.conclusions[at][1] for number, at in align(leg.job, names, render).items()}
    if leg.failed_step is None:
        return ReportedSteps(conclusions)
    red = next((number for number, conclusion in conclusions.items() if conclusion in ("failure", "timed_out")), None)
    if red is not None:
        return ReportedSteps(conclusions, red)
    found = find_step(leg.job, leg.failed_step, render)
    if isinstance(found, WorkflowProblem):
        return ReportedSteps(conclusions, note=f"{leg.source}: {str(found).rstrip('.')}; each step is tried")
    return ReportedSteps(conclusions, found.number)
