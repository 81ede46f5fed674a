"""Gathers what an attempt needs before it starts: requester, commit, failing jobs, and the owners' configuration.

Only reads from GitHub. If the attempt cannot continue, the result is a `NoRepair`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Literal

from agent.case import without_a_run
from agent.ci.job.contexts import Run
from agent.ci.job.deployments import deployment
from agent.ci.job.selection import FailedJob
from agent.ci.logs import Cause, LogReading, excerpt, read_log, read_merge, read_seed
from agent.ci.project.configuration import NO_CONFIGURATION, Configuration, ConfigurationProblem, read_configuration
from agent.ci.project.configuration import PATH as CONFIGURATION
from agent.contract import words
from agent.contract.last_good import LastGood
from agent.contract.outcome import NoRepair, Outcome
from app.attempt.last_good import find_last_good
from app.attempt.tags import newest_tag
from app.github.errors import Forbidden, GitHubError, Gone, NotFound, TooSlow
from app.github.repository import ACTIONS, Repository
from app.github.types import CheckRun, CommitStatus, Job, PullRequest, WorkflowRun
from app.redaction import redact
from app.store.values import Attempt
from webhooks.intake import RepairRequest
from webhooks.triggers import FAILING, one_line

_PULL_REQUEST = "pull_request"  # the event whose runs test a merge
_MAX_JOBS = 8  # failing jobs to read; more of them rarely have more causes
FRESH = timedelta(minutes=2)  # after a job has ended, its log may not be stored yet
_POLL = 5.0  # seconds between two looks at runs that have not ended
LOG_WAITS = (1.0, 2.0, 4.0, 8.0)  # seconds
_LOG_LIMIT = 4 * 1024 * 1024  # bytes


@dataclass(frozen=True, slots=True)
class HeadCommit:
    """The failing commit."""

    sha: str
    branch: str
    pull: PullRequest | None = None  # the open one from this branch

    @property
    def base(self) -> str:
        """The branch that the pull request asks to merge into; "" if there is none."""
        return self.pull.base.ref if self.pull is not None else ""


class NotWanted(NoRepair):
    """An ending that nobody has to be told: the commit is not the branch's newest, or the owners exclude what failed."""


@dataclass(frozen=True, slots=True)
class Gathered:
    """Everything that GitHub knows about the failure."""

    configuration: Configuration
    jobs: tuple[FailedJob, ...]
    hints: tuple[str, ...]
    title: str  # what failed, for people: "CI: tests"
    url: str  # of the failing run; empty if there is none
    runs: tuple[WorkflowRun, ...] = ()
    infrastructure: str = ""  # evidence from a log, if all failing jobs failed for a reason outside the code
    good: tuple[LastGood, ...] = ()  # the last good commit, if it is known
    notes: tuple[str, ...] = ()  # for people
    workflows: tuple[bytes | None, ...] = ()  # texts of the failed ones
    others: tuple[tuple[Literal["check_run", "status"], str], ...] = ()  # kinds and names of other services' failures
    merge_sha: str = ""  # the merge of the pull request into its base that CI tested, if its files differ from the head's


async def check_permission(attempt: Attempt, repository: Repository) -> NoRepair | None:
    """A `NoRepair` if a command's author may not write any more."""
    sender = attempt.requests[0].sender if attempt.by_command else None
    if sender is None:
        return None
    permission = await repository.permission(sender)
    if permission.can_write:
        return None
    return without_a_run(
        Outcome.REFUSED,
        f"Only people with write permission can start an attempt; @{sender} has `{permission}`.",
        "Ask a maintainer to comment `/heal`.",
    )


async def resolve_head(attempt: Attempt, repository: Repository) -> HeadCommit | NoRepair:
    """Find the commit to repair, or why none can be repaired here."""
    if not attempt.by_command:
        if attempt.head_sha is None or attempt.head_branch is None:
            raise ValueError(f"the automatic attempt {attempt.id} has no head")
        branch = await _branch_of(attempt, attempt.head_sha, attempt.head_branch, repository)
        pull = None if branch == attempt.repository.default_branch else await repository.find_pull(branch, "open")
        return HeadCommit(attempt.head_sha, branch, pull)
    request = attempt.requests[0]
    if request.pull_number is None:
        raise ValueError(f"the command of attempt {attempt.id} has no pull request")
    pull = await repository.pull(request.pull_number)
    if pull.merged_at is not None:
        reason = f"Pull request #{pull.number} is merged, so its branch is not repaired."
        return without_a_run(Outcome.REFUSED, reason, f"If {pull.base.ref} fails now, its failing run starts an attempt.")
    if pull.state != "open":
        return without_a_run(Outcome.REFUSED, f"Pull request #{pull.number} is closed.", "Reopen it, then comment `/heal`.")
    if pull.head.repo is None or pull.head.repo.id != attempt.repository.id:
        return without_a_run(
            Outcome.REFUSED,
            "The pull request comes from a fork; Selfheal only repairs branches of this repository.",
            "Push the branch to this repository, open a pull request from it, then comment `/heal` there.",
        )
    return HeadCommit(pull.head.sha, pull.head.ref, pull)


async def _branch_of(attempt: Attempt, sha: str, first: str, repository: Repository) -> str:
    """The first branch that a trigger names and that ends with the commit: the name of a tag looks like a branch's."""
    names = dict.fromkeys([first, *(request.head_branch for request in attempt.requests if request.head_branch)])
    if len(names) > 1:
        for name in names:
            if await repository.branch_head(name) == sha:
                return name
    return first


async def has_moved(head: HeadCommit, repository: Repository) -> NotWanted | None:
    """An ending if `head` is no longer the newest commit of its branch."""
    now = await repository.branch_head(head.branch)
    if now == head.sha:
        return None
    if now is None:
        return _not_wanted(
            Outcome.SUPERSEDED,
            f"There is no branch {head.branch}: it was deleted or renamed, or this is a tag.",
            "Nothing to do: if it has another name now, its next failing run starts an attempt.",
        )
    return _not_wanted(
        Outcome.SUPERSEDED,
        f"The newest commit of {head.branch} is now `{now[:10]}`, not `{head.sha[:10]}`.",
        "Nothing to do: if the newer commit fails too, it gets its own attempt.",
    )


async def was_closed(attempt: Attempt, head: HeadCommit, repository: Repository) -> NotWanted | None:
    """An ending if only pull requests wanted the attempt, and all of its branch are closed, the newest without a merge."""
    is_wanted = attempt.is_asked_for or attempt.answered_at is not None
    if is_wanted or any(request.workflow_id is None for request in attempt.requests):
        return None
    if head.branch == attempt.repository.default_branch or await repository.find_pull(head.branch, "open") is not None:
        return None
    closed = await repository.find_pull(head.branch)
    if closed is None or closed.merged_at is not None:
        return None
    return _not_wanted(
        Outcome.CANCELLED,
        f"Pull request #{closed.number} was closed without a merge, so its branch is not repaired.",
        "Reopen it: if CI fails then, a new attempt starts.",
    )


async def wait_for_ci(head: HeadCommit, repository: Repository, seconds: float, tell: Callable[[str], Awaitable[None]]) -> None:
    """Wait until nothing of the commit's CI runs any more, so that one attempt repairs all its failures; at most `seconds`.

    `tell` is called once, and only if there is something to wait for.
    """
    told, until = False, time.monotonic() + seconds
    while pending := await _pending(head, repository):
        left = until - time.monotonic()
        if left <= 0:
            return
        if not told:
            await tell(f"Waiting for {words.counted(pending, 'other check')} of this commit")
            told = True
        await asyncio.sleep(min(_POLL, left))


async def _pending(head: HeadCommit, repository: Repository) -> int:
    """How many workflows still run; without a failed one also how much other CI, of which only then something is read."""
    found = await repository.runs(head.sha)
    runs = [run for run in found or () if run.tests_commit]
    pending = sum(run.is_pending for run in runs)
    if any(run.conclusion in FAILING for run in runs):
        return pending
    checks = await repository.other_checks(head.sha, with_actions=found is None)
    statuses = await repository.statuses(head.sha) or ()
    return pending + sum(check.is_pending for check in checks) + sum(status.is_pending for status in statuses)


async def gather(attempt: Attempt, head: HeadCommit, repository: Repository, secrets: Collection[str]) -> Gathered | NoRepair:
    """Read the owners' configuration and every job that has failed so far.

    Logs and summaries are shown to a model: anything that looks like a secret, and the exact `secrets`, are redacted here. An
    expired run or log does not stop the attempt: running the tests tells more than the log.
    """
    configuration = await _configuration(attempt, head, repository)
    if isinstance(configuration, NoRepair):
        return configuration
    failing = await _failing_runs(attempt, head, repository)
    runs = tuple(run for run in failing or () if attempt.by_command or configuration.wants_workflow(run.name, run.path))
    if failing and not runs:
        return _excluded((run.name for run in failing), f"{CONFIGURATION} excludes the failing workflows")
    texts = {run.path: await repository.file(run.path, head.sha) for run in runs}
    read: list[_ReadJob] = []
    for run in runs:
        context = _context(run, head, repository)
        for job in (await _failed_jobs(run, repository))[: _MAX_JOBS - len(read)]:
            read.append(await _read_job(job, run, context, texts[run.path], repository))
    jobs = [each.job for each in read]
    asked = [pull.base.ref for run in runs for pull in run.pull_requests or () if pull.head.ref == head.branch]
    base = head.base or next(iter(asked), attempt.repository.default_branch)
    merge, told = await _tested_merge(read, head, base, repository)
    if merge:  # its workflow is what ran: the base may have changed it
        merged = {run.path: await repository.file(run.path, merge) for run in runs if run.event == _PULL_REQUEST}
        texts |= merged
        jobs = [
            replace(job, workflow=_text(merged[job.workflow_path])) if job.run.event == _PULL_REQUEST else job for job in jobs
        ]
    tag = await newest_tag(texts.values(), repository)
    jobs = [replace(job, run=replace(job.run, sha=merge or head.sha, tag=tag)) for job in jobs]
    if deploying := "" if attempt.is_asked_for else await asyncio.to_thread(_deployments, jobs):
        return without_a_run(
            Outcome.REFUSED,
            f"The failing step deploys, notifies or transfers ({deploying}), so the code is not examined.",
            "Check its credentials and the service, and rerun the job. If the code is at fault, comment `/heal`.",
        )
    found, unread = await _other_failures(head, repository, with_actions=failing is None) if not runs else ((), ())
    others = tuple(
        each
        for each in found
        if attempt.by_command or each.service == ACTIONS or configuration.wants_service(each.name, each.service)
    )  # those of Actions are named after jobs: which workflow it was is not known
    if found and not others:
        return _excluded((each.name for each in found), f"{CONFIGURATION} excludes the failing checks, or they run no tests")
    hints = [redact(text, secrets) for text in (*(each.hint for each in read), *(check.text for check in others))]
    title = ", ".join(run.name for run in runs) or ", ".join(check.name for check in others)
    url = runs[0].url if runs else next((check.url for check in others if check.url), "")
    good, notes = await find_last_good(head.sha, head.branch, runs, base, repository)
    if not all(each.is_granted for each in read):
        unread = (*unread, _ungranted("The logs of GitHub Actions", "actions: read", repository))
    notes = (*unread, *notes, *told, *_unread(read))
    return Gathered(
        configuration,
        tuple(jobs),
        tuple(hint for hint in hints if hint),
        title or _request_title(attempt),
        url,
        runs,
        redact(_infrastructure([each.reading for each in read]), secrets) if not others else "",
        good,
        notes,
        tuple(texts.values()),
        tuple(("status" if isinstance(each, CommitStatus) else "check_run", one_line(each.name)) for each in others),
        merge or "",
    )


def _not_wanted(outcome: Outcome, reason: str, next_step: str) -> NotWanted:
    ending = without_a_run(outcome, reason, next_step)
    return NotWanted(outcome, reason, next_step, ending.usage, ending.log)


def _excluded(names: Iterable[str], why: str) -> NotWanted:
    listed = ", ".join(dict.fromkeys(names))
    return _not_wanted(Outcome.REFUSED, f"{why}: {listed}.", f"To change that, edit `workflows` in {CONFIGURATION}.")


@dataclass(frozen=True, slots=True)
class _ReadJob:
    job: FailedJob
    hint: str
    reading: LogReading | None  # None: the log is missing
    merge_sha: str | None  # that CI tested, by the log
    unread: str = ""  # why the log could not be downloaded
    is_granted: bool = True  # the installation lets us read logs


def _text(content: bytes | None) -> str | None:
    return content.decode("utf-8", "replace") if content is not None else None


def _context(run: WorkflowRun, head: HeadCommit, repository: Repository) -> Run:
    return Run(
        sha=head.sha,
        branch=head.branch,
        repository=repository.ref.full_name,
        event=run.event,
        id=str(run.id),
        attempt=str(run.attempt),
        api_url=repository.api_url,
    )


async def _read_job(job: Job, run: WorkflowRun, context: Run, workflow: bytes | None, repository: Repository) -> _ReadJob:
    log, missing, unread, is_granted = None, "has expired", "", True
    try:
        log = await _log(job, repository)
    except TooSlow:  # it is only a hint
        missing = "took too long to download"
    except GitHubError as error:
        is_granted = not (isinstance(error, Forbidden) and error.is_of_token)
        if is_granted and not error.download_host:
            raise
        missing, unread = ("could not be downloaded", str(error)) if is_granted else ("could not be read", "")
    reading = await asyncio.to_thread(read_log, log) if log is not None else None
    failed = FailedJob(
        name=job.name,
        workflow=_text(workflow),
        workflow_path=run.path,
        failed_step=job.failed_step.name if job.failed_step else None,
        conclusions=tuple((step.name, step.conclusion) for step in job.steps if step.conclusion is not None),
        run=context,
        reported_ids=reading.ids if reading is not None else (),
        seed=read_seed(log) if log is not None else None,
        started=(job.failed_step or job).started_at,
    )
    hint = excerpt(log) if log is not None else f"The log of the failing job {job.name} {missing}."
    merge = read_merge(log) if log is not None and run.event == _PULL_REQUEST else None
    return _ReadJob(failed, hint, reading, merge, unread, is_granted)


def _unread(read: Sequence[_ReadJob]) -> tuple[str, ...]:
    """A note for people on the logs whose host could not be reached."""
    why = {each.job.name: each.unread.rstrip(".") for each in read if each.unread}
    if not why:
        return ()
    told = f"The log of {', '.join(why)} could not be downloaded: {next(iter(why.values()))}."
    return (f"{told} Whoever runs Selfheal can let its server reach that host.",)


def _deployments(jobs: Sequence[FailedJob]) -> str:
    """What all the failing steps deploy, notify or transfer with; "" if one of them does something else."""
    found = [deployment(job) for job in jobs]
    return ", ".join(dict.fromkeys(words.code(each) for each in found)) if all(found) else ""


async def _other_failures(
    head: HeadCommit, repository: Repository, *, with_actions: bool
) -> tuple[tuple[CheckRun | CommitStatus, ...], tuple[str, ...]]:
    """What other CI services than GitHub Actions report as failing, and notes for people if GitHub tells only a part of it.

    `with_actions`: its runs cannot be read, but that they failed can.
    """
    checks = await repository.other_checks(head.sha, with_actions=with_actions)
    statuses = await repository.statuses(head.sha)
    failing = tuple(check for check in checks if check.is_failing)
    notes = []
    if any(check.service == ACTIONS for check in failing):
        notes.append(_ungranted("The jobs and logs of GitHub Actions", "actions: read", repository))
    if statuses is None:
        notes.append(_ungranted("Commit statuses", "statuses: read", repository))
    return (*failing, *(status for status in statuses or () if status.is_failing)), tuple(notes)


def _ungranted(what: str, permission: str, repository: Repository) -> str:
    owner = repository.ref.full_name.partition("/")[0]
    way = f"The App's owner can ask for it, and an owner of `{owner}` can accept it in the App's installation."
    return f"{what} were not read, because the installation does not grant `{permission}`. {way}"


async def _tested_merge(
    read: Sequence[_ReadJob], head: HeadCommit, base: str, repository: Repository
) -> tuple[str | None, tuple[str, ...]]:
    """The merge that CI tested, if its files are not the head's, and a note for people on what is repaired."""
    named = next((each.merge_sha for each in read if each.merge_sha), None)
    if named:
        merge = await _different_merge(named, head, repository)
        told = f"CI tested the merge of the pull request into {base} (`{named[:10]}`), so this is repaired."
        return merge, (told,) if merge else ()
    if not any(each.reading is None and each.job.run.event == _PULL_REQUEST for each in read):
        return None, ()
    gone = f"CI tested a merge of the pull request into {base}, but its log, which names that, is missing"
    made = await repository.merge_of(head.pull.number) if head.pull is not None else None
    merge = await _different_merge(made, head, repository) if made else None
    return merge, (f"{gone}: {f'the newest merge (`{merge[:10]}`)' if merge else 'the branch alone'} is repaired.",)


async def _different_merge(sha: str, head: HeadCommit, repository: Repository) -> str | None:
    """The merge that a log names, if it is one of this head, and its files are not the head's."""
    try:
        merge, own = await repository.commit(sha), await repository.commit(head.sha)
    except NotFound:
        return None
    is_merge = len(merge.parents) == 2 and merge.parents[1].sha == head.sha
    return sha if is_merge and merge.tree.sha != own.tree.sha else None


def _infrastructure(readings: list[LogReading | None]) -> str:
    """Evidence that the failure is outside the code; "" if any log is missing or shows another cause."""
    if not readings or not all(reading is not None and reading.cause is Cause.INFRASTRUCTURE for reading in readings):
        return ""
    return next((reading.evidence for reading in readings if reading is not None and reading.evidence), "see its log")


async def _configuration(attempt: Attempt, head: HeadCommit, repository: Repository) -> Configuration | NoRepair:
    """The owners' configuration, read from the default branch, never from the failing commit."""
    content = await repository.file(CONFIGURATION, attempt.repository.default_branch)
    if content is None:
        return NO_CONFIGURATION
    configuration = read_configuration(content.decode("utf-8", "replace"))
    if isinstance(configuration, ConfigurationProblem):
        return without_a_run(
            Outcome.REFUSED,
            f"{CONFIGURATION} on {attempt.repository.default_branch} is invalid. {configuration.sentence}",
            f"Fix {CONFIGURATION} on {attempt.repository.default_branch}, then comment `/heal`.",
        )
    if not configuration.enabled and not attempt.by_command:
        return _not_wanted(Outcome.REFUSED, f"{CONFIGURATION} disables Selfheal.", "Set `enabled: true` there to enable it.")
    if not configuration.wants_branch(head.branch) and not attempt.by_command:
        why = f"{CONFIGURATION} excludes the branch {head.branch}."
        return _not_wanted(Outcome.REFUSED, why, f"To change that, edit `branches` in {CONFIGURATION}.")
    return configuration


async def _failing_runs(attempt: Attempt, head: HeadCommit, repository: Repository) -> tuple[WorkflowRun, ...] | None:
    """The runs that triggered the attempt, and all other failed runs that test the commit; for a person, all failed ones.

    None if the installation does not grant to read them.
    """
    found = await repository.runs(head.sha)
    if found is None:
        return None
    failing = (run for run in found if run.conclusion in FAILING)
    known = {run.id: run for run in failing if attempt.by_command or run.tests_commit}
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
    """The job's log; None if it has expired. Shortly after a job has ended, GitHub may not have stored it yet."""
    is_fresh = job.completed_at is not None and datetime.now(UTC) - job.completed_at < FRESH
    for wait in (*LOG_WAITS[: len(LOG_WAITS) * is_fresh], None):
        try:
            return await repository.job_log(job.id, _LOG_LIMIT)
        except Gone:
            return None
        except NotFound:
            if wait is None:
                return None
            await asyncio.sleep(wait)
    return None


def _request_title(attempt: Attempt) -> str:
    requests: tuple[RepairRequest, ...] = attempt.requests
    return requests[0].title if requests else "a failing check"
