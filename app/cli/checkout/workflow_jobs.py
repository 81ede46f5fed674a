"""Which job of a checkout's workflows a person means: by the options of the command line, else the first one that tests."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from agent.ci.expressions import Unknown
from agent.ci.job.selection import ChosenJob, leg_of
from agent.ci.project.detection import Project
from agent.ci.workflows.document import Problem
from agent.ci.workflows.model import Job
from agent.ci.workflows.shapes import OPENING
from agent.ci.workflows.step_names import find_step, title_of
from agent.ci.workflows.workflow_file import read_workflow
from app.cli.checkout.job_selection import NoSuchJob, Wish
from sandbox.base import MIB

WORKFLOWS = ".github/workflows"
_TESTS = re.compile(r"\b(?:pytest|unittest|tox|nox|jest|vitest|mocha)\b|\btests?\b")


@dataclass(frozen=True, slots=True)
class Choice:
    """The job, and which workflows were passed over on the way because they cannot be read: the file, the line and why."""

    job: ChosenJob | None = None
    passed_over: tuple[str, ...] = ()


def choose(root: Path, wish: Wish) -> Choice:
    """The job that is wished for; without a wish the first one that tests, none where there is none. Raises `NoSuchJob`."""
    if wish.test is not None:
        return Choice()
    texts = _workflows(root)
    paths = [path for path in texts if _is(path, wish.workflow)]
    if wish.names_a_job and not paths:
        if files := sorted(path for path in texts if _is(path, None)):
            raise NoSuchJob(f"the checkout has no workflow {wish.workflow!r}; there are: {', '.join(files)}")
        raise NoSuchJob(f"the checkout has no workflow in {WORKFLOWS}")
    project = Project.of_texts(texts)
    problems: list[str] = []
    for path in paths:
        workflow = read_workflow(texts[path])
        if isinstance(workflow, Problem):
            problems.append(f"{path}: {workflow}")
            continue
        if wish.job is None and wish.workflow is None and not {"push", "pull_request"} & set(workflow.events):
            continue
        testing = next((job.id for job in workflow.jobs if _tests(job)), None)
        chosen = ChosenJob(texts[path], path, wish.job or testing or (None if wish.names_a_job else ""), wish.matrix, wish.step)
        if chosen.job == "":
            continue
        leg = leg_of(chosen, project, ".")
        if not isinstance(leg, Problem):
            if wish.step is not None and isinstance(found := find_step(leg.job, wish.step, _as_it_stands), Problem):
                names = "; ".join(title_of(step)[:100] for step in leg.job.steps)
                raise NoSuchJob(f"{path}: {found} There are: {names}")
            return Choice(chosen, tuple(problems))
        problems.append(f"{path}: {leg}")
    if wish.names_a_job:
        raise NoSuchJob("\n".join(problems) or "no workflow of the checkout has such a job")
    return Choice(None, tuple(problems))


def _workflows(root: Path) -> dict[str, str]:
    """Path below the checkout → text, of its workflows and of the actions that they may call."""
    folder = root / ".github"
    files = sorted([*folder.glob("workflows/*.y*ml"), *folder.glob("actions/**/action.y*ml")])
    texts: dict[str, str] = {}
    for path in files:
        if path.suffix in (".yml", ".yaml") and path.is_file():
            with path.open(encoding="utf-8", errors="replace") as file:
                texts[path.relative_to(root).as_posix()] = file.read(MIB)
    return texts


def _is(path: str, wished: str | None) -> bool:
    if not path.startswith(f"{WORKFLOWS}/"):
        return False
    return wished is None or PurePosixPath(path).match(PurePosixPath(wished).name)


def _as_it_stands(template: str) -> str | Unknown:
    return Unknown(template) if OPENING in template else template


def _tests(job: Job) -> bool:
    return any(_TESTS.search(step.run or "") for step in job.steps)
