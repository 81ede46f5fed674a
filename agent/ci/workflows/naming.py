"""Finds the job and the leg of its matrix by a name: the one that GitHub shows, or the one that a person gives.

GitHub's API has only the names of a run's jobs. A name is the job's rendered `name` if that contains an expression, else its
name or id with the leg's values: "tests (3.12, ubuntu-latest)". A job of a called workflow is "caller / called".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from agent.ci.expressions import ExpressionError, Unknown, Value
from agent.ci.expressions.values import text, unknown_in
from agent.ci.workflows.document import WorkflowProblem
from agent.ci.workflows.matrix import MatrixLeg, evaluated, leaves, legs
from agent.ci.workflows.model import Job, Workflow
from agent.ci.workflows.shapes import OPENING
from agent.ci.workflows.shown_names import values_shown

NAME_LIMIT = 100  # of a name that GitHub shows
_LISTED = 20  # choices that a message lists
_RUNS = 10_000  # of one workflow whose names are compared
_DEPTH = 100  # of values
_CALLS = 20  # that a shown name is split into

# A template and its contexts (`matrix`, `inputs`) → its value, keeping the type of a single expression (`value_of`). May raise
# `ExpressionError`.
Evaluate: TypeAlias = Callable[[str, Mapping[str, Value]], Value]


@dataclass(frozen=True, slots=True)
class JobLeg:
    """A job and one leg of its matrix. `within` is the rest of the shown name: a job of the workflow that this one calls.

    `rest`: values given by a person for that job's matrix. `note` names a guess, for the evidence.
    """

    job: Job
    leg: MatrixLeg
    within: str = ""
    note: str = ""
    rest: Mapping[str, str] = field(default_factory=dict)


def legs_of(job: Job, evaluate: Evaluate, inputs: Mapping[str, Value]) -> tuple[MatrixLeg, ...] | Unknown | WorkflowProblem:
    """The legs of a job, its matrix evaluated."""
    contexts: dict[str, Value] = {"inputs": inputs}
    try:
        if job.strategy is None:
            return legs(evaluated(job.matrix, lambda template: evaluate(template, contexts)))
        strategy = evaluate(job.strategy, contexts)
    except ExpressionError as error:
        return WorkflowProblem(f"The matrix of the job '{job.id}' cannot be evaluated: {error}.", job.line)
    if isinstance(strategy, Mapping):
        return legs(strategy.get("matrix"))
    return (
        strategy
        if isinstance(strategy, Unknown)
        else WorkflowProblem(f"The strategy of the job '{job.id}' is not a mapping.", job.line)
    )


def name_of(job: Job, leg: MatrixLeg, evaluate: Evaluate, inputs: Mapping[str, Value]) -> str | Unknown | WorkflowProblem:
    """The name that GitHub shows for a leg of a job."""
    name = job.name or job.id
    if OPENING in name:
        try:
            value = evaluate(name, {"inputs": inputs, "matrix": leg.values or None})
        except ExpressionError as error:
            return WorkflowProblem(f"The name of the job '{job.id}' cannot be evaluated: {error}.", job.line)
        if isinstance(value, Unknown):
            return value
        name = text(value) or job.id
    elif unknown := next(unknown_in(leg.values, _DEPTH), None):
        return unknown
    elif leg.shown:
        name = f"{name} ({', '.join(leg.shown)})"
    return name if len(name) <= NAME_LIMIT else f"{name[: NAME_LIMIT - 3]}..."


def find_leg(
    workflow: Workflow, shown: str, evaluate: Evaluate, inputs: Mapping[str, Value] | None = None
) -> JobLeg | WorkflowProblem:
    """The job and leg that GitHub shows as `shown`; a truncated name ("…", "...") matches what begins with it.

    Where only GitHub knows the matrix or the name, the values come from the shown name, and `note` says so.
    """
    wanted = _squeezed(shown)
    sought: list[_Sought] = []
    runs = 0
    for job in workflow.jobs:
        sought.append(_sought(job, wanted, evaluate, inputs or {}))
        runs += len(sought[-1].names)
        if runs > _RUNS:
            return WorkflowProblem(f"The workflow has more than {_RUNS} job runs.")
    for choice in ([each for one in sought for each in one.found], [one.guess for one in sought if one.guess is not None]):
        if len(choice) == 1:
            return choice[0]
        if choice:
            first = choice[0]
            note = f"{len(choice)} runs have the display name {shown[:NAME_LIMIT]!r}; the first was taken: {_described(first)}."
            return JobLeg(first.job, first.leg, first.within, note)
    for one in sought:
        if one.problem is not None:
            return one.problem
    names = [name for one in sought for name in one.names]
    return WorkflowProblem(f"No job in the workflow has the display name {shown[:200]!r}; the jobs are: {_listing(names)}.")


def pick(
    workflow: Workflow,
    job: str | None,
    matrix: Mapping[str, str],
    evaluate: Evaluate,
    inputs: Mapping[str, Value] | None = None,
) -> JobLeg | WorkflowProblem:
    """The leg that a person selects: a job by its id or shown name (None: the only one), its matrix values as text.

    A key can address objects ("os.name"). If several legs match, the first is taken, and `note` says so.
    """
    if job is None and len(workflow.jobs) > 1:
        return WorkflowProblem(
            f"The workflow has several jobs; choose one of: {_listing([each.id for each in workflow.jobs])}."
        )
    one = workflow.jobs[0] if job is None else workflow.job(job)
    within = ""
    if one is None:
        named = [each for each in workflow.jobs if each.name == job]
        if len(named) != 1:
            assert job is not None
            shown = find_leg(workflow, job, evaluate, inputs)
            if isinstance(shown, WorkflowProblem) or not matrix:
                return shown
            named, within = [shown.job], shown.within
        one = named[0]
    made = legs_of(one, evaluate, inputs or {})
    if isinstance(made, WorkflowProblem):
        return made
    if isinstance(made, Unknown):
        note = f"The matrix of '{one.id}' depends on {made.what}, which only GitHub knows; the given values are used."
        return JobLeg(one, MatrixLeg(dict(matrix), tuple(matrix.values())), within, note)
    rest: dict[str, str] = {}
    if one.uses is not None:  # other keys belong to the called job
        rest = {key: value for key, value in matrix.items() if all(_value_at(leg.values, key) is None for leg in made)}
        matrix = {key: value for key, value in matrix.items() if key not in rest}
    left = [leg for leg in made if all(_value_at(leg.values, key) == value for key, value in matrix.items())]
    if not left:
        asked = ", ".join(f"{key}={value}" for key, value in matrix.items())
        choices = _listing([_values(leg) for leg in made])
        return WorkflowProblem(f"No leg of the job '{one.id}' has {asked[:200]}; the legs are: {choices}.")
    note = f"{len(left)} legs of '{one.id}' match; the first was taken: {_values(left[0])}." if len(left) > 1 else ""
    return JobLeg(one, left[0], within, note, rest)


@dataclass(frozen=True, slots=True)
class _Sought:
    """The result of comparing one job with a shown name."""

    names: tuple[str, ...]
    found: tuple[JobLeg, ...] = ()
    guess: JobLeg | None = None
    problem: WorkflowProblem | None = None


def _sought(job: Job, shown: str, evaluate: Evaluate, inputs: Mapping[str, Value]) -> _Sought:
    title = (job.name or job.id,)
    made = legs_of(job, evaluate, inputs)
    if isinstance(made, WorkflowProblem):
        return _Sought(title, problem=made)
    if isinstance(made, Unknown):
        return _Sought(title, guess=_guessed(job, (), shown))
    named = [(leg, name_of(job, leg, evaluate, inputs)) for leg in made]
    names = tuple(name for _, name in named if isinstance(name, str))
    rests = [
        (leg, _stands_for(shown, _squeezed(name), calls=job.uses is not None)) for leg, name in named if isinstance(name, str)
    ]
    return _Sought(
        names or title,
        tuple(JobLeg(job, leg, rest) for leg, rest in rests if rest is not None),
        _guessed(job, made, shown) if any(isinstance(name, Unknown) for _, name in named) else None,
        next((name for _, name in named if isinstance(name, WorkflowProblem)), None),
    )


def _stands_for(shown: str, name: str, *, calls: bool) -> str | None:
    """The rest of `shown` for a called workflow ("" if none is left), or None if it does not start with `name`."""
    if shown == name:
        return ""
    if calls and shown.startswith(f"{name} / "):
        return shown[len(name) + 3 :]
    for cut in ("…", "..."):
        if shown.endswith(cut) and shown != cut and name.startswith(shown.removesuffix(cut)):
            return ""
    return None


def _guessed(job: Job, made: tuple[MatrixLeg, ...], shown: str) -> JobLeg | None:
    """A leg with values from the shown name, if the matrix or the name cannot be evaluated."""
    axes = [axis for axis in job.matrix if axis not in ("include", "exclude")] if isinstance(job.matrix, Mapping) else []
    parts = shown.split(" / ", _CALLS)
    for end in range(1, len(parts) + 1) if job.uses else [len(parts)]:
        values = values_shown(job.name or job.id, axes, " / ".join(parts[:end]))
        if values is None:
            continue
        fits = [leg for leg in made if all(_value_at(leg.values, key) == value for key, value in values.items())]
        leg = fits[0] if fits else MatrixLeg(values, tuple(leaves(values)))
        note = f"Only GitHub knows the full matrix or name of '{job.id}'; its values are read from {shown[:NAME_LIMIT]!r}."
        return JobLeg(job, leg, " / ".join(parts[end:]), note)
    return None


def _value_at(values: Value, key: str) -> str | None:
    """The text of the value under a key, or under the keys of a dotted path."""
    if not isinstance(values, Mapping):
        return None
    if key in values:
        value = values[key]
        return None if isinstance(value, Unknown | Mapping | list | tuple) else text(value)
    first, _, rest = key.partition(".")
    return _value_at(values.get(first), rest) if rest else None


def _described(found: JobLeg) -> str:
    return f"{found.job.id} ({_values(found.leg)})" if found.leg.values else found.job.id


def _values(leg: MatrixLeg) -> str:
    return ", ".join(f"{key}={' '.join(leaves(value))}" for key, value in leg.values.items()) or "no matrix"


def _listing(choices: list[str]) -> str:
    unique = list(dict.fromkeys(choice[:NAME_LIMIT] for choice in choices))
    more = f" and {len(unique) - _LISTED} more" if len(unique) > _LISTED else ""
    return "; ".join(unique[:_LISTED]) + more


def _squeezed(name: str) -> str:
    return " ".join(name.split())
