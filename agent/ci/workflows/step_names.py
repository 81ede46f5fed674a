"""Which step of a job a name stands for that GitHub shows, and which names are those of steps that GitHub adds itself.

A step without a name is "Run " and its action, or the first line of its script. Of a step's name nothing but the text is told.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agent.ci.expressions import ExpressionError, Unknown
from agent.ci.workflows.document import Problem
from agent.ci.workflows.model import Job, Step
from agent.ci.workflows.shown_values import values_shown

_ADDED = ("Set up job", "Set up runner", "Initialize containers", "Stop containers", "Complete job", "Complete runner")
_PREFIXES = ("Pre ", "Post ", "Build ", "Pull ")


def find_step(job: Job, shown: str, render: Callable[[str], str | Unknown]) -> Step | Problem:
    """The step of a job that GitHub shows as `shown`; `render` evaluates a template (and may raise `ExpressionError`).

    A name that was cut stands for what begins with it, and one that cannot be evaluated for all that its template can make.
    """
    wanted = " ".join(shown.split())
    # Of several the likeliest, and of those the first.
    likely = [(likelihood, step) for step in job.steps if (likelihood := _Name(step, render).stands_for(wanted))]
    if likely:
        return max(likely, key=lambda one: one[0])[1]
    if _is_added(wanted):
        return Problem(f"The step {wanted[:200]!r} is one that GitHub adds itself; the workflow does not hold it.", job.line)
    return Problem(f"The job '{job.id}' has no step that is shown as {wanted[:200]!r}.", job.line)


def align(job: Job, shown: Sequence[str], render: Callable[[str], str | Unknown]) -> dict[int, int]:
    """Number of a step → its place in `shown`, the names that GitHub shows of a run's steps in their order.

    Every step of the file is among them once, also a skipped one, and others stand before, between and behind; so names that
    several steps have are told apart by their order.
    """
    wanted = [" ".join(name.split()) for name in shown]
    found: dict[int, int] = {}
    at = 0
    for step in job.steps:
        name = _Name(step, render)
        for place in range(at, len(wanted)):
            if name.stands_for(wanted[place]) and not (name.is_unknown and _is_added(wanted[place])):
                found[step.number], at = place, place + 1
                break
    return found


class _Name:
    """The name of a step as it is evaluated here."""

    def __init__(self, step: Step, render: Callable[[str], str | Unknown]) -> None:
        self._template = title_of(step)
        try:
            name = render(self._template)
        except ExpressionError:
            name = Unknown(self._template)
        self._name = name if isinstance(name, Unknown) else " ".join(name.split())

    @property
    def is_unknown(self) -> bool:
        return isinstance(self._name, Unknown)

    def stands_for(self, wanted: str) -> int:
        """How likely: 3 it is, 2 it begins with what was cut, 1 its template can make it, 0 it cannot be."""
        if isinstance(self._name, Unknown):
            return int(values_shown(self._template, (), wanted) is not None)
        cut = wanted.removesuffix("…").removesuffix("...")
        return 3 if self._name == wanted else 2 if cut not in ("", wanted) and self._name.startswith(cut) else 0


def _is_added(name: str) -> bool:
    return name in _ADDED or name.startswith(_PREFIXES)


def title_of(step: Step) -> str:
    """The template of the name that GitHub shows."""
    if step.name:
        return step.name
    said = step.uses if step.uses is not None else (step.run or "").strip()
    return "Run " + said.split("\n")[0].strip()
