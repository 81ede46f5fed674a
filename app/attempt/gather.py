"""What an attempt must know before it starts: whose word started it, which commit, what failed there, what the owners allow.

Reads GitHub, writes nothing. What cannot go on is a `Stop` with its outcome and a sentence.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass

from agent.ci.job.contexts import Run
from agent.ci.job.seeds import told_seed
from agent.ci.job.selection import FailedJob
from agent.ci.logs import LogReading, excerpt, is_infrastructure, read_log
from agent.ci.project.configuration import NO_CONFIGURATION, Configuration, Problem, read_configuration
from agent.ci.project.configuration import PATH as CONFIGURATION
from agent.contract.outcome import Outcome
from app.github import NotFound, Repository
from app.github.types import Job, WorkflowRun
from app.redaction import redact
from app.store.values import Attempt
from webhooks.intake import RepairRequest

_JOBS = 8  # failing jobs that are looked at; more of them are rarely more causes
_LOG_LIMIT = 4 * 1024 * 1024  # bytes


@dataclass(frozen=True, slots=True)
class Head:
    """The commit to heal."""

    sha: str
    branch: str


@dataclass(frozen=True, slots=True)
class Stop:
    """The attempt ends before anything runs."""

    outcome: Outcome
    reason: str
    next_step: str


@dataclass(frozen=True, slots=True)
class Gathered:
    """Everything about the failure that GitHub knows."""

    configuration: Configuration
    jobs: tuple[FailedJob, ...]
    hints: tuple[str, ...]
    title: str  # what failed, for people: "CI: tests"
    url: str  # of the failing run; empty when there is none
    runs: tuple[WorkflowRun, ...] = ()
    infrastructure: str = ""  # the line of a log that tells it, where all failing jobs failed for a reason outside the code


async def resolve_head(attempt: Attempt, repository: Repository) -> Head | Stop:
    """Find the commit that is asked for, and whether the person who asked may ask."""
    if not attempt.by_command:
        if attempt.head_sha is None or attempt.head_branch is None:
            raise ValueError(f"the automatic attempt {attempt.id} has no head")
        return Head(attempt.head_sha, attempt.head_branch)
    request = attempt.requests[0]
    if request.pull_number is None or request.sender is None:
        raise ValueError(f"the command of attempt {attempt.id} names no pull request or no person")
    permission = await repository.permission(request.sender)
    if not permission.can_write:
        return Stop(
            Outcome.REFUSED,
            f"Only people with write permission may start an attempt; @{request.sender} has `{permission}`.",
            "Ask a maintainer to comment `/heal`.",
        )
    pull = await repository.pull(request.pull_number)
    if pull.state != "open":
        return Stop(Outcome.REFUSED, f"Pull request #{pull.number} is closed.", "Open it again, then comment `/heal`.")
    if pull.head_repository != attempt.repository.full_name:
        return Stop(
            Outcome.REFUSED,
            "The pull request comes from a fork; Selfheal repairs only branches of this repository.",
            "Push the branch to this repository, or repair it in the fork with `selfheal fix`.",
        )
    return Head(pull.head_sha, pull.head_branch)


async def has_moved(head: Head, repository: Repository) -> Stop | None:
    """Whether a repair of `head` would still be of use: only the newest commit of a branch is healed."""
    now = await repository.branch_head(head.branch)
    if now == head.sha:
        return None
    if now is None:
        return Stop(Outcome.SUPERSEDED, f"The branch {head.branch} is gone.", "Nothing to do.")
    return Stop(
        Outcome.SUPERSEDED,
        f"{head.branch} has moved on to {now[:10]} while {head.sha[:10]} was to be healed.",
        "Nothing to do: if the newer commit fails too, it gets an attempt of its own.",
    )


async def gather(attempt: Attempt, head: Head, repository: Repository, secrets: Collection[str]) -> Gathered | Stop:
    """Read the owners' configuration, and every failing job that is known by now.

    What logs and summaries say is shown to a model: what looks like a secret, and the exact `secrets`, are taken out here.
    A run or a log that is gone (GitHub keeps them for a while only) is no reason to stop: the tests tell more than they do.
    """
    configuration = await _configuration(attempt, head, repository)
    if isinstance(configuration, Stop):
        return configuration
    runs = await _failing_runs(attempt, head, repository)
    jobs: list[FailedJob] = []
    hints: list[str] = []
    readings: list[LogReading | None] = []
    for run in runs:
        workflow = await repository.file(run.path, head.sha)
        for job in await _failed_jobs(run, repository):
            if len(jobs) == _JOBS:
                break
            log = await _log(job, repository)
            reading = await asyncio.to_thread(read_log, log) if log is not None else None
            readings.append(reading)
            jobs.append(
                FailedJob(
                    name=job.name,
                    workflow=workflow.decode("utf-8", "replace") if workflow is not None else None,
                    workflow_path=run.path,
                    failed_step=job.failed_steps[0].name if job.failed_steps else None,
                    conclusions=tuple((step.name, step.conclusion) for step in job.steps if step.conclusion is not None),
                    run=Run(
                        sha=head.sha,
                        branch=head.branch,
                        repository=attempt.repository.full_name,
                        event=run.event,
                        id=str(run.id),
                        attempt=str(run.attempt),
                    ),
                    told=tuple(failure.id for failure in reading.failures) if reading is not None else (),
                    seed=told_seed(log) if log is not None else None,
                    began=job.failed_at,
                )
            )
            said = excerpt(log) if log is not None else f"The log of the failing job {job.name} is gone."
            hints.append(redact(said, secrets))
    others = await repository.failing_checks(head.sha) if not runs else ()
    hints += [redact(f"{check.name} ({check.app}): {check.title}\n{check.summary}", secrets) for check in others]
    title = ", ".join(run.name for run in runs) or ", ".join(check.name for check in others)
    url = runs[0].url if runs else others[0].url if others else ""
    return Gathered(
        configuration,
        tuple(jobs),
        tuple(hint for hint in hints if hint),
        title or _asked_by(attempt),
        url,
        runs,
        redact(_infrastructure(readings), secrets) if not others else "",
    )


def _infrastructure(readings: list[LogReading | None]) -> str:
    """The evidence that nothing in the repository is at fault, "" where any log tells otherwise or is not known."""
    if not readings or not all(reading is not None and is_infrastructure(reading) for reading in readings):
        return ""
    return next((reading.evidence for reading in readings if reading is not None and reading.evidence), "its log says so")


async def _configuration(attempt: Attempt, head: Head, repository: Repository) -> Configuration | Stop:
    """The owners' word: from the default branch, never from the commit under repair."""
    content = await repository.file(CONFIGURATION, attempt.repository.default_branch)
    if content is None:
        return NO_CONFIGURATION
    configuration = read_configuration(content.decode("utf-8", "replace"))
    if isinstance(configuration, Problem):
        return Stop(
            Outcome.REFUSED,
            f"{CONFIGURATION} on {attempt.repository.default_branch} cannot be followed. {configuration.sentence}",
            f"Mend {CONFIGURATION} on {attempt.repository.default_branch}, then comment `/heal`.",
        )
    if not configuration.enabled and not attempt.by_command:
        return Stop(Outcome.REFUSED, f"{CONFIGURATION} turns Selfheal off.", "Set `enabled: true` there to turn it on.")
    if not configuration.wants_branch(head.branch) and not attempt.by_command:
        return Stop(Outcome.REFUSED, f"{CONFIGURATION} leaves out the branch {head.branch}.", "Nothing to do.")
    return configuration


async def _failing_runs(attempt: Attempt, head: Head, repository: Repository) -> tuple[WorkflowRun, ...]:
    """The runs that asked for the attempt, and every other run of the same commit that is red by now."""
    known = {run.id: run for run in await repository.failing_runs(head.sha)}
    for request in attempt.requests:
        if request.run_id is not None and request.run_id not in known:
            try:
                known[request.run_id] = await repository.run(request.run_id)
            except NotFound:
                continue  # deleted meanwhile
    return tuple(known[run_id] for run_id in sorted(known))


async def _failed_jobs(run: WorkflowRun, repository: Repository) -> tuple[Job, ...]:
    try:
        return await repository.failed_jobs(run)
    except NotFound:
        return ()


async def _log(job: Job, repository: Repository) -> str | None:
    try:
        return (await repository.job_log(job.id, _LOG_LIMIT)).text
    except NotFound:
        return None


def _asked_by(attempt: Attempt) -> str:
    requests: tuple[RepairRequest, ...] = attempt.requests
    return requests[0].title if requests else "a failing check"
