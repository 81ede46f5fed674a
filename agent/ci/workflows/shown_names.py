"""Reads the names that GitHub shows: finds the step that is meant, and the values of a leg in the name of a job.

A step without a name is shown as "Run " and its action, or the first line of its script. Linear in the names: a template is
hostile text, so it never becomes a regular expression.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from agent.ci.expressions import ExpressionError, Unknown
from agent.ci.expressions.evaluation import split
from agent.ci.workflows.document import WorkflowProblem
from agent.ci.workflows.model import Job, WorkflowStep

_ADDED = ("Set up job", "Set up runner", "Initialize containers", "Stop containers", "Complete job", "Complete runner")
_PREFIXES = ("Pre ", "Post ", "Build ", "Pull ")
_OF_MATRIX = re.compile(r"matrix\.([A-Za-z0-9_-]+)")


def find_step(job: Job, shown: str, render: Callable[[str], str | Unknown]) -> WorkflowStep | WorkflowProblem:
    """The step of a job that GitHub shows as `shown`; `render` evaluates a template (and may raise `ExpressionError`).

    A cut name matches all names that start with it; a name that cannot be evaluated matches all that its template can produce.
    """
    wanted = " ".join(shown.split())
    # The most likely step; of equally likely ones, the first.
    likely = [(likelihood, step) for step in job.steps if (likelihood := _Name(step, render).stands_for(wanted))]
    if likely:
        return max(likely, key=lambda one: one[0])[1]
    if _is_added(wanted):
        return WorkflowProblem(f"The step {wanted[:200]!r} is added by GitHub; the workflow does not contain it.", job.line)
    return WorkflowProblem(f"The job '{job.id}' has no step with the display name {wanted[:200]!r}.", job.line)


def align(job: Job, shown: Sequence[str], render: Callable[[str], str | Unknown]) -> dict[int, int]:
    """Number of a step → its index in `shown`, the names that GitHub shows for a run's steps, in order.

    Every step of the file occurs once, even a skipped one, among steps that GitHub adds. Equal names are distinguished by their
    order.
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
    """The evaluated name of a step."""

    def __init__(self, step: WorkflowStep, render: Callable[[str], str | Unknown]) -> None:
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
        """How likely: 3 equal, 2 starts with the cut name, 1 its template can produce it, 0 impossible."""
        if isinstance(self._name, Unknown):
            return int(values_shown(self._template, (), wanted) is not None)
        cut = wanted.removesuffix("…").removesuffix("...")
        return 3 if self._name == wanted else 2 if cut not in ("", wanted) and self._name.startswith(cut) else 0


def _is_added(name: str) -> bool:
    return name in _ADDED or name.startswith(_PREFIXES)


def title_of(step: WorkflowStep) -> str:
    """The template of the name that GitHub shows."""
    if step.name:
        return step.name
    said = step.uses if step.uses is not None else (step.run or "").strip()
    return "Run " + said.split("\n")[0].strip()


def values_shown(template: str, axes: Sequence[str], shown: str) -> dict[str, str] | None:
    """The matrix values in `shown`, by key, or None if the template cannot have produced it.

    After a template without expressions, the values of the axes follow in order. In one with expressions, a plain
    `matrix.key` is read up to the first occurrence of the text after it.
    """
    try:
        pieces = split(" ".join(template.split()))
    except ExpressionError:
        return None
    texts, wanted = pieces[0::2], pieces[1::2]
    if not wanted:
        return _listed(texts[0], axes, shown)
    if not shown.startswith(texts[0]) or len(shown) < sum(map(len, texts)) or not shown.endswith(texts[-1]):
        return None
    values: dict[str, str] = {}
    at, end = len(texts[0]), len(shown) - len(texts[-1])
    for i, expression in enumerate(wanted):
        stop = end if i == len(wanted) - 1 else shown.find(texts[i + 1], at, end)
        if stop < at:
            return None
        if found := _OF_MATRIX.fullmatch(expression.strip()):
            values[found[1]] = shown[at:stop]
        at = stop + len(texts[i + 1])
    return values


def _listed(name: str, axes: Sequence[str], shown: str) -> dict[str, str] | None:
    if shown == name:
        return {}
    if not shown.startswith(f"{name} (") or not shown.endswith(")"):
        return None
    listed = shown[len(name) + 2 : -1].split(", ")
    return dict(zip(axes, listed, strict=True)) if len(listed) == len(axes) else {}
