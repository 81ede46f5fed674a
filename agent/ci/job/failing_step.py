"""Which step of a job is the failing one: what CI says of its steps, and what is looked for where that is not enough. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from agent.ci.expressions import Unknown
from agent.ci.job.leg import Leg
from agent.ci.workflows.document import Problem
from agent.ci.workflows.step_names import align, find_step


class Aim(Enum):
    """What a walk looks for."""

    NAMED = "the step that CI names"
    WITHIN = "the first red step of the action that CI names"
    TESTS = "the first step that tests, as the one that CI names only installs"
    RED = "the first red step, as CI names none"

    @property
    def is_any_red(self) -> bool:
        """Whether any step may be the failing one, also one that is left out."""
        return self in (Aim.WITHIN, Aim.RED)


@dataclass(frozen=True, slots=True)
class Said:
    """What CI says of the job's own steps, by their numbers."""

    conclusions: Mapping[int, str] = field(default_factory=dict)
    failing: int | None = None
    note: str = ""  # why the name of the failing step is of no use

    def runs(self, number: int) -> bool | None:
        """Whether the step ran; None where CI does not tell."""
        return self.conclusions[number] != "skipped" if number in self.conclusions else None


def listen(leg: Leg, render: Callable[[str], str | Unknown]) -> Said:
    """`render` evaluates a template of a step's name (and may raise `ExpressionError`)."""
    names = [name for name, _ in leg.conclusions]
    conclusions = {number: leg.conclusions[at][1] for number, at in align(leg.job, names, render).items()}
    if leg.failed_step is None:
        return Said(conclusions)
    red = next((number for number, conclusion in conclusions.items() if conclusion in ("failure", "timed_out")), None)
    if red is not None:
        return Said(conclusions, red)
    found = find_step(leg.job, leg.failed_step, render)
    if isinstance(found, Problem):
        return Said(conclusions, note=f"{leg.source}: {str(found).rstrip('.')}; each step is tried")
    return Said(conclusions, found.number)
