"""Which step of a job a name stands for that GitHub shows, and which names are those of steps that GitHub adds itself.

A step without a name is "Run " and its action, or the first line of its script. Of a step's name nothing but the text is told.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agent.ci.expressions import ExpressionError, Unknown
from agent.ci.workflows.document import Problem
from agent.ci.workflows.guessing import values_shown
from agent.ci.workflows.model import Job, Step

_ADDED = ("Set up job", "Set up runner", "Initialize containers", "Stop containers", "Complete job", "Complete runner")
_PREFIXES = ("Pre ", "Post ", "Build ", "Pull ")


def find_step(job: Job, shown: str, render: Callable[[str], str | Unknown]) -> Step | Problem:
    """The step of a job that GitHub shows as `shown`; `render` evaluates a template (and may raise `ExpressionError`).

    A name that was cut stands for what begins with it, and one that cannot be evaluated for all that its template can make.
    """
    wanted = " ".join(shown.split())
    begun: list[Step] = []
    possible: list[Step] = []
    for step in job.steps:
        template = _template(step)
        try:
            name = render(template)
        except ExpressionError:
            name = Unknown(template)
        if isinstance(name, str):
            name = " ".join(name.split())
            if name == wanted:
                return step
            cut = wanted.removesuffix("…").removesuffix("...")
            if cut not in ("", wanted) and name.startswith(cut):
                begun.append(step)
        elif values_shown(template, (), wanted) is not None:
            possible.append(step)
    if begun or possible:
        return (begun or possible)[0]
    if wanted in _ADDED or wanted.startswith(_PREFIXES):
        return Problem(f"The step {wanted[:200]!r} is one that GitHub adds itself; the workflow does not hold it.", job.line)
    return Problem(f"The job '{job.id}' has no step that is shown as {wanted[:200]!r}.", job.line)


def align(job: Job, shown: Sequence[str], render: Callable[[str], str | Unknown]) -> dict[int, int]:
    """Number of a step → its place in `shown`, the names that GitHub shows of a run's steps in their order.

    Every step of the file is among them once, also a skipped one, and others stand before, between and behind; so names that
    several steps have are told apart by their order.
    """
    found: dict[int, int] = {}
    at = 0
    for step in job.steps:
        template = _template(step)
        try:
            name = render(template)
        except ExpressionError:
            name = Unknown(template)
        place = next((i for i in range(at, len(shown)) if _is_shown(name, template, shown[i])), None)
        if place is not None:
            found[step.number], at = place, place + 1
    return found


def _is_shown(name: str | Unknown, template: str, shown: str) -> bool:
    wanted = " ".join(shown.split())
    if isinstance(name, Unknown):
        return not (wanted in _ADDED or wanted.startswith(_PREFIXES)) and values_shown(template, (), wanted) is not None
    name = " ".join(name.split())
    cut = wanted.removesuffix("…").removesuffix("...")
    return name == wanted or (cut not in ("", wanted) and name.startswith(cut))


def _template(step: Step) -> str:
    if step.name:
        return step.name
    said = step.uses if step.uses is not None else (step.run or "").strip()
    return "Run " + said.split("\n")[0].strip()
