"""Finds the job to replay in a checkout's workflows, as selected on the command line."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from agent.ci.expressions import Unknown
from agent.ci.job.selection import AnyJob, ChosenJob, RequestedJob, select_leg
from agent.ci.project.detection import Project
from agent.ci.workflows.document import WorkflowProblem
from agent.ci.workflows.model import Job
from agent.ci.workflows.shapes import OPENING
from agent.ci.workflows.shown_names import find_step, title_of
from agent.ci.workflows.workflow_file import read_workflow
from app.cli.checkout.checkout import commit
from sandbox.base import MIB


@dataclass(frozen=True, slots=True)
class JobSelection:
    """Command-line options that select a job, and the commit to compare with."""

    test: str | None = None  # a command, instead of a job
    workflow: str | None = None  # path in the checkout, or only the file name
    job: str | None = None
    matrix: Mapping[str, str] = field(default_factory=dict)
    step: str | None = None  # the failing step, as GitHub shows it
    good: str | None = None  # the last good commit, with a job or a command

    @property
    def names_a_job(self) -> bool:
        return self.workflow is not None or self.job is not None or bool(self.matrix) or self.step is not None


class NoSuchJob(Exception):
    """The checkout has no such job; the message lists the available ones."""


WORKFLOWS = ".github/workflows"
_TESTS = re.compile(r"\b(?:pytest|unittest|tox|nox|jest|vitest|mocha)\b|\btests?\b")


async def job_of(root: Path, selection: JobSelection) -> RequestedJob | None:
    """The selected job with the checkout's commit; without a selection, any; None for a command. Raises `NoSuchJob`."""
    if selection.test is not None:
        return None
    run = await commit(root)
    return replace(await asyncio.to_thread(find_job, root, selection), run=run) if selection.names_a_job else AnyJob(run)


def find_job(root: Path, selection: JobSelection) -> ChosenJob:
    """The selected job. Raises `NoSuchJob`."""
    texts = _workflows(root)
    paths = [path for path in texts if _is(path, selection.workflow)]
    if not paths:
        if files := sorted(path for path in texts if _is(path, None)):
            raise NoSuchJob(f"the checkout has no workflow {selection.workflow!r}; available: {', '.join(files)}")
        raise NoSuchJob(f"the checkout has no workflow in {WORKFLOWS}")
    project = Project.of_texts(texts)
    problems: list[str] = []
    for path in paths:
        workflow = read_workflow(texts[path])
        if isinstance(workflow, WorkflowProblem):
            problems.append(f"{path}: {workflow}")
            continue
        if selection.job is None and selection.workflow is None and not {"push", "pull_request"} & set(workflow.events):
            continue
        job = selection.job or next((job.id for job in workflow.jobs if _tests(job)), None)
        chosen = ChosenJob(texts[path], path, job, selection.matrix, selection.step)
        leg = select_leg(chosen, project, ".")
        if not isinstance(leg, WorkflowProblem):
            if selection.step is not None and isinstance(
                found := find_step(leg.job, selection.step, _unevaluated), WorkflowProblem
            ):
                names = "; ".join(title_of(step)[:100] for step in leg.job.steps)
                raise NoSuchJob(f"{path}: {found} Available: {names}")
            return chosen
        problems.append(f"{path}: {leg}")
    raise NoSuchJob("\n".join(problems) or f"no workflow in {WORKFLOWS} runs on push or pull_request; name one with --workflow")


def _workflows(root: Path) -> dict[str, str]:
    """The texts of the workflows and local actions, by their path in the checkout."""
    folder = root / ".github"
    files = sorted([*folder.glob("workflows/*.y*ml"), *folder.glob("actions/**/action.y*ml")])
    texts: dict[str, str] = {}
    for path in files:
        if path.suffix in (".yml", ".yaml") and path.is_file():
            with path.open(encoding="utf-8", errors="replace") as file:
                texts[path.relative_to(root).as_posix()] = file.read(MIB)
    return texts


def _is(path: str, wanted: str | None) -> bool:
    if not path.startswith(f"{WORKFLOWS}/"):
        return False
    return wanted is None or PurePosixPath(path).match(PurePosixPath(wanted).name)


def _unevaluated(template: str) -> str | Unknown:
    return Unknown(template) if OPENING in template else template


def _tests(job: Job) -> bool:
    return any(_TESTS.search(step.run or "") for step in job.steps)
