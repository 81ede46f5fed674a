"""Selects the leg to replay from what CI or a person names: its workflow, matrix values and services."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import TypeAlias

from agent.ci.expressions import ExpressionError, Scope, Unknown, Value, value_of
from agent.ci.expressions.values import text
from agent.ci.job.actions import python_version
from agent.ci.job.contexts import Run, build_scope
from agent.ci.job.leg import Leg
from agent.ci.job.refusals import Unavailable
from agent.ci.job.services import JobServices, read_services
from agent.ci.project.detection import Project
from agent.ci.workflows.document import WorkflowProblem
from agent.ci.workflows.model import Workflow
from agent.ci.workflows.naming import Evaluate, JobLeg, find_leg, name_of, pick
from agent.ci.workflows.reuse import ResolvedJob, resolve_job
from agent.ci.workflows.workflow_file import read_workflow
from agent.guest.text import one_line


@dataclass(frozen=True, slots=True)
class FailedJob:
    """A job that failed in CI. Its texts are untrusted data."""

    name: str  # as GitHub shows it, "tests (3.11)"
    workflow: str | None  # text of its workflow file at the failing commit
    workflow_path: str = ""
    failed_step: str | None = None  # its name as GitHub shows it; None: unknown
    conclusions: tuple[tuple[str, str], ...] = ()  # of its steps: name that GitHub shows, conclusion
    run: Run = field(default_factory=Run)
    reported_ids: tuple[str, ...] = ()  # test ids that its log reports
    seed: int | None = None  # random seed, from its log
    started: datetime | None = None  # when its failing step started


@dataclass(frozen=True, slots=True)
class ChosenJob:
    """A job that a person names, with values of its matrix."""

    workflow: str  # text of the workflow file
    workflow_path: str
    job: str | None = None  # id, or the name that GitHub shows; None: the only one
    matrix: Mapping[str, str] = field(default_factory=dict)
    step: str | None = None  # the failing one, as GitHub shows it; None: unknown
    run: Run = field(default_factory=Run)


@dataclass(frozen=True, slots=True)
class AnyJob:
    """The job that a maintainer would replay: neither CI nor a person names one.

    `refused` are jobs whose replay was refused, with the reasons, as in `Choice.passed_over`.
    """

    run: Run = field(default_factory=Run)
    refused: tuple[tuple[str, str], ...] = ()


RequestedJob: TypeAlias = FailedJob | ChosenJob | AnyJob


def read_image(asked: RequestedJob) -> str | None:
    """The image that a job runs in, from its workflow file only; None if the files must show which job it is."""
    if isinstance(asked, AnyJob):
        return None
    leg = select_leg(asked, Project.of_texts({}), ".")
    return None if isinstance(leg, WorkflowProblem) else leg.image


def select_leg(asked: FailedJob | ChosenJob, project: Project, root: str) -> Leg | WorkflowProblem:
    """The requested leg; `root` is the path of the repository as its steps see it."""
    if asked.workflow is None:
        return WorkflowProblem("The workflow file is unknown.")
    workflow = read_workflow(asked.workflow)
    if isinstance(workflow, WorkflowProblem):
        return workflow
    run = asked.run if isinstance(asked, FailedJob) else replace(asked.run, event=event_of(workflow))
    run = replace(run, workflow=workflow.name or asked.workflow_path, root=root)

    evaluate = evaluator(run)

    def choose(workflow: Workflow, inputs: Mapping[str, Value]) -> JobLeg | WorkflowProblem:
        if isinstance(asked, FailedJob):
            return find_leg(workflow, asked.name, evaluate, inputs)
        return pick(workflow, asked.job, asked.matrix, evaluate)

    found = resolve_job(
        workflow, asked.workflow_path, choose, evaluate, lambda path: project.texts.get(posixpath.normpath(path))
    )
    if isinstance(found, WorkflowProblem):
        return found
    if isinstance(asked, ChosenJob):
        return replace(leg_of(found, run), failed_step=asked.step)
    leg = leg_of(found, run, asked.name)
    return replace(leg, failed_step=asked.failed_step, conclusions=asked.conclusions, is_red=True)


def evaluator(run: Run) -> Evaluate:
    """Evaluates templates outside of steps. The result may raise `ExpressionError`."""

    def evaluate(template: str, contexts: Mapping[str, Value]) -> Value:
        scope = build_scope(run)
        return value_of(template, Scope({**scope.contexts, **contexts}))

    return evaluate


def leg_of(found: ResolvedJob, run: Run, shown: str = "") -> Leg:
    """The leg to replay; `shown` is the name that GitHub shows, if it is known."""
    evaluate = evaluator(run)
    target = found.target
    shown = shown or _shown((*found.calls, target), evaluate, found.inputs)
    render = partial(_rendered, evaluate, {"matrix": target.leg.values, "inputs": found.inputs})
    try:
        wanted, needs = _services(target, evaluate, found.inputs), ""
    except Unavailable as stands:
        wanted, needs = JobServices(), stands.what
    system = next((label for label in map(render, target.job.labels) if re.match(r"(?i)windows|macos", label)), "")
    differs = (f"the job runs on {one_line(system, 60)} in CI, but on Linux here",) if system else ()
    image = render(target.job.container.image) if target.job.container is not None else None
    return Leg(
        workflow=found.workflow,
        job=target.job,
        source=f"workflow {found.path or '?'}, job {one_line(shown, 100)}",
        path=found.path,
        run=replace(run, job=target.job.id),
        matrix=target.leg.values,
        inputs=found.inputs,
        wanted=wanted,
        needs=needs,
        image=image,
        python=_python(image) if image is not None else None,
        is_windows=system.lower().startswith("windows"),
        notes=(*(one.note for one in (*found.calls, target) if one.note), *wanted.notes, *differs),
    )


def _shown(chain: Sequence[JobLeg], evaluate: Evaluate, inputs: Mapping[str, Value]) -> str:
    """The name that GitHub shows: "caller / called (3.12)"."""
    names = [name_of(one.job, one.leg, evaluate, inputs if one is chain[-1] else {}) for one in chain]
    return " / ".join(
        name if isinstance(name, str) else f"{one.job.id} ({', '.join(one.leg.shown)})" if one.leg.shown else one.job.id
        for one, name in zip(chain, names, strict=True)
    )


def _python(image: str) -> str | None:
    """ "python:3.12-slim" → "3.12"."""
    name, _, tag = image.rpartition("/")[2].partition(":")
    return python_version(tag) if name == "python" else None


def event_of(workflow: Workflow) -> str:
    """The most common event that starts the workflow."""
    return next((event for event in ("push", "pull_request", *workflow.events) if event in workflow.events), "push")


def _services(target: JobLeg, evaluate: Evaluate, inputs: Mapping[str, Value]) -> JobServices:
    """The job's services, evaluated. Raises `Unavailable`: an unknown password or image cannot be invented."""

    def render(template: str) -> str:
        value = evaluate(template, {"matrix": target.leg.values, "inputs": inputs})
        if isinstance(value, Unknown):
            raise Unavailable(value.what)
        return text(value)

    asked: dict[str, object] = {}
    for name, one in target.job.services.items():
        asked[name] = {
            "image": render(one.image),
            "env": {key: render(template) for key, template in one.env.items()},
            "ports": [render(port) for port in ([one.ports] if isinstance(one.ports, str) else one.ports)],
            "volumes": [render(volume) for volume in ([one.volumes] if isinstance(one.volumes, str) else one.volumes)],
            "options": render(one.options),
            "entrypoint": render(one.entrypoint),
            "command": render(one.command),
        }
    return read_services(asked, in_container=target.job.container is not None)


def _rendered(evaluate: Evaluate, contexts: Mapping[str, Value], template: str) -> str:
    try:
        value = evaluate(template, contexts)
    except ExpressionError:
        return template
    return template if isinstance(value, Unknown) else text(value)
