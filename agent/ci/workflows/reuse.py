"""Resolves a job that calls a reusable workflow of the same repository to the job that runs in it.

The caller passes in the function that reads files. Workflows of other repositories are not fetched; they are a problem.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from posixpath import normpath
from typing import TypeAlias

from agent.ci.expressions import ExpressionError, Unknown, Value
from agent.ci.expressions.values import text
from agent.ci.workflows.document import WorkflowProblem
from agent.ci.workflows.matrix import MatrixLeg
from agent.ci.workflows.model import Input, Job, Workflow
from agent.ci.workflows.naming import Evaluate, JobLeg, find_leg, legs_of, pick
from agent.ci.workflows.workflow_file import read_workflow

NESTING_LIMIT = 10  # nested workflows, including the first one, as GitHub allows
_FOLDER = ".github/workflows/"
_KINDS: Mapping[type, str] = {bool: "boolean", int: "number", float: "number"}

_NO_JOB = JobLeg(Job(""), MatrixLeg({}))  # of a workflow whose jobs are still to be listed

# The text of a file by its path from the repository's root, None if there is none.
ReadFile: TypeAlias = Callable[[str], str | None]


@dataclass(frozen=True, slots=True)
class ResolvedJob:
    """The job that runs: the last one called, in the workflow at `path`, with that workflow's `inputs`.

    `calls` are the calling jobs, outermost first; empty if the job is in the first file.
    """

    target: JobLeg
    workflow: Workflow
    path: str
    inputs: Mapping[str, Value]
    calls: tuple[JobLeg, ...] = ()


def resolve_job(
    workflow: Workflow,
    path: str,
    choose: Callable[[Workflow, Mapping[str, Value]], JobLeg | WorkflowProblem],
    evaluate: Evaluate,
    read: ReadFile,
) -> ResolvedJob | WorkflowProblem:
    """The job that `choose` selects in `workflow`, followed through the workflows it calls.

    In a called workflow the rest of the shown name selects the job; without a rest, it is the only job.
    """
    inputs: Mapping[str, Value] = {}
    paths, calls = [normpath(path)], list[JobLeg]()
    target = choose(workflow, inputs)
    while not isinstance(target, WorkflowProblem) and target.job.uses is not None:
        called = called_path(target.job)
        if isinstance(called, WorkflowProblem):
            return called
        if called in paths:
            return WorkflowProblem(f"The workflow {called} calls itself, through {' → '.join(paths)}.", target.job.line)
        if len(paths) >= NESTING_LIMIT:
            return WorkflowProblem(
                f"Workflows call each other more than {NESTING_LIMIT} levels deep: {' → '.join(paths)}.", target.job.line
            )
        inner = read_called(called, read)
        if isinstance(inner, WorkflowProblem):
            return inner
        given = inputs_of(target, inner, evaluate, inputs)
        if isinstance(given, WorkflowProblem):
            return given
        paths.append(called)
        calls.append(target)
        workflow, inputs = inner, given
        target = _inside(workflow, target, evaluate, inputs)
    return target if isinstance(target, WorkflowProblem) else ResolvedJob(target, workflow, paths[-1], inputs, tuple(calls))


def every_job(
    workflow: Workflow, path: str, evaluate: Evaluate, read: ReadFile, guess: Callable[[Job], MatrixLeg | None]
) -> Iterator[ResolvedJob]:
    """Every leg of every job that `workflow` runs, in the order of the file, through the workflows that it calls.

    `guess` makes a leg where only GitHub knows the matrix. What is invalid, or cannot be read here, is left out.
    """
    yield from _every(ResolvedJob(_NO_JOB, workflow, normpath(path), {}), (), evaluate, read, guess)


def _every(
    within: ResolvedJob, paths: tuple[str, ...], evaluate: Evaluate, read: ReadFile, guess: Callable[[Job], MatrixLeg | None]
) -> Iterator[ResolvedJob]:
    paths = (*paths, within.path)
    for job in within.workflow.jobs:
        made, note = legs_of(job, evaluate, within.inputs), ""
        if isinstance(made, Unknown):
            note = f"Only GitHub knows the matrix of '{job.id}'; its values are guessed."
            made = (leg,) if (leg := guess(job)) is not None else ()
        for leg in () if isinstance(made, WorkflowProblem) else made:
            target = JobLeg(job, leg, note=note)
            if job.uses is None:
                yield replace(within, target=target)
                continue
            called = called_path(job)
            if isinstance(called, WorkflowProblem) or called in paths or len(paths) >= NESTING_LIMIT:
                continue
            inner = read_called(called, read)
            given = inner if isinstance(inner, WorkflowProblem) else inputs_of(target, inner, evaluate, within.inputs)
            if not isinstance(inner, WorkflowProblem) and not isinstance(given, WorkflowProblem):
                calls = (*within.calls, target)
                yield from _every(ResolvedJob(_NO_JOB, inner, called, given, calls), paths, evaluate, read, guess)


def called_path(job: Job) -> str | WorkflowProblem:
    """The path of the workflow that a job calls, or why it cannot be read here."""
    uses = job.uses or ""
    if not uses.startswith("./"):
        return WorkflowProblem(
            f"The job '{job.id}' calls the workflow {uses[:200]!r} from another repository, which is not fetched.", job.line
        )
    path = normpath(uses)
    if not path.startswith(_FOLDER) or "/" in path.removeprefix(_FOLDER) or "@" in path:
        return WorkflowProblem(
            f"The job '{job.id}' calls {uses[:200]!r}; only files directly in {_FOLDER} can be called.", job.line
        )
    return path


def read_called(path: str, read: ReadFile) -> Workflow | WorkflowProblem:
    source = read(path)
    if source is None:
        return WorkflowProblem(f"The called workflow {path} is not in the repository.")
    workflow = read_workflow(source)
    if isinstance(workflow, WorkflowProblem):
        return WorkflowProblem(f"The called workflow {path} cannot be read: {workflow}", None)
    if "workflow_call" not in workflow.events:
        return WorkflowProblem(f"The workflow {path} cannot be called: its 'on' has no workflow_call.")
    return workflow


def inputs_of(
    caller: JobLeg, called: Workflow, evaluate: Evaluate, outer: Mapping[str, Value]
) -> Mapping[str, Value] | WorkflowProblem:
    """The `inputs` context of a called workflow: the inputs of the call, checked against their types, and the defaults."""
    job = caller.job
    declared = {one.id.lower(): one for one in called.call_inputs}
    for name in job.inputs:
        if name.lower() not in declared:
            return WorkflowProblem(
                f"The job '{job.id}' passes the input '{name[:100]}', which the called workflow does not have.", job.line
            )
    given = {name.lower(): value for name, value in job.inputs.items()}
    contexts: dict[str, Value] = {"inputs": outer, "matrix": caller.leg.values or None}
    values: dict[str, Value] = {}
    for key, one in declared.items():
        if key not in given and one.required:
            return WorkflowProblem(
                f"The job '{job.id}' does not pass the input '{one.id}', which the called workflow requires.", job.line
            )
        written = given.get(key, one.default)
        try:
            # A default cannot use the caller's contexts.
            value = evaluate(written, contexts if key in given else {}) if isinstance(written, str) else written
        except ExpressionError as error:
            return WorkflowProblem(f"The input '{one.id}' of the job '{job.id}' cannot be evaluated: {error}.", job.line)
        fitting = _typed(one, value)
        if isinstance(fitting, WorkflowProblem):
            return WorkflowProblem(f"{fitting.sentence} It comes from the job '{job.id}'.", job.line)
        values[one.id] = fitting
    return values


def _typed(one: Input, value: Value) -> Value | WorkflowProblem:
    if isinstance(value, Unknown):
        return value
    if value is None:
        return {"boolean": False, "number": 0}.get(one.type, "")
    if one.type not in ("boolean", "number"):
        fitting: Value = text(value) if isinstance(value, str | int | float) else None
    else:
        fitting = value if _KINDS.get(type(value)) == one.type else None
    return (
        WorkflowProblem(f"The input '{one.id}' must be a {one.type}, not {text(value)[:100]!r}.")
        if fitting is None
        else fitting
    )


def _inside(workflow: Workflow, caller: JobLeg, evaluate: Evaluate, inputs: Mapping[str, Value]) -> JobLeg | WorkflowProblem:
    if caller.within and caller.rest:
        return pick(workflow, caller.within, caller.rest, evaluate, inputs)
    if caller.within:
        return find_leg(workflow, caller.within, evaluate, inputs)
    if len(workflow.jobs) > 1:
        names = ", ".join(job.id for job in workflow.jobs)
        return WorkflowProblem(
            f"The workflow that '{caller.job.id}' calls has several jobs; name one of: {names}.", caller.job.line
        )
    return pick(workflow, None, caller.rest, evaluate, inputs)
