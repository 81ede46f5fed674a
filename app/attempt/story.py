"""The story of one attempt, from its trigger to its outcome; safe to run again after a stop at any line.

    claim → head and permission → gather (failing jobs, logs, configuration) → sandbox → graph → publish → record
                                                                                          └─▶ ask a person, sleep

Everything that must survive a killed worker is in the database (lease, timeline, blobs), in the checkpoints, or on GitHub under
a name derived from the attempt. A worker that receives an ended attempt reports its outcome to GitHub if it is unreported, and
drops its checkpoints once the attempt can no longer be forked.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from math import inf
from typing import Literal

import structlog

from agent.case import Case, without_a_run
from agent.ci.project.configuration import PATH as CONFIGURATION
from agent.ci.project.configuration import Configuration, DailyLimits
from agent.ci.project.configuration import Quota as DailyQuota
from agent.contract import words
from agent.contract.events import Degraded, StepStarted
from agent.contract.outcome import NoRepair, Outcome, Repair
from agent.contract.question import Waiting
from agent.engine import Engine
from agent.models import tracing
from app.attempt.archive import files_of
from app.attempt.gather import (
    Gathered,
    HeadCommit,
    NotWanted,
    check_permission,
    gather,
    has_moved,
    resolve_head,
    wait_for_ci,
    was_closed,
)
from app.attempt.merges import on_head
from app.attempt.progress import AWAY_SECONDS, GITHUB_WAIT, Timeline, page_of, publication_of, react, report_end, rerun
from app.github.client import GitHub
from app.github.errors import (
    BadCredentials,
    BranchTaken,
    Conflict,
    Forbidden,
    GitHubError,
    Invalid,
    NotFound,
    RateLimited,
    TooLarge,
    Unavailable,
    Unreachable,
    UnsafeDownload,
)
from app.github.repository import Repository
from app.github.types import COMMENTING, PUBLISHING, PUBLISHING_WORKFLOWS, READING, Access
from app.observability import traces
from app.observability.log import bind_ids
from app.publish import publish
from app.publish.messages import Publication, attempt_in, by_hand
from app.publish.outcomes import OUTCOME_TEXTS
from app.publish.receipt import FailedJob
from app.store.leases.claims import QUOTA_NEXT, NotClaimed, Postponed
from app.store.leases.leases import AttemptCancelled, Lease
from app.store.leases.quotas import Allowance, Quota, Quotas
from app.store.memories import Embedder
from app.store.store import Store
from app.store.values import Attempt, PullRequestRecord
from sandbox.base import SandboxError, SandboxUnavailable
from webhooks.triggers import BRANCH_PREFIX

log = structlog.get_logger()
_UNREACHABLE_WAIT = timedelta(minutes=15)  # for a host that drops packets
_RERUN_FIRST = "Rerun the failed jobs."
_OWN_COMMIT = "The failing commit is a repair of Selfheal's own, which starts no attempt."


@dataclass(frozen=True, slots=True)
class Deps:
    """The resources that a worker keeps open."""

    store: Store
    github: GitHub
    engine: Engine
    worker: str  # names this process in leases
    max_tries: int
    secrets: tuple[str, ...]  # exact texts that are never published
    rerun: Literal["never", "once"] = "never"  # failed jobs, if the repository does not configure it
    pages_url: str = ""  # where people reach the pages; "": nowhere
    wait_for_runs: float = 0.0  # seconds that an automatic attempt waits for the rest of its commit's CI
    branch_prefix: str = BRANCH_PREFIX  # of the repairs' branches
    embedder: Embedder | None = None  # finds memories by meaning, in addition to words


@dataclass(frozen=True, slots=True)
class Work:
    """One claimed attempt: its lease, and its repository with a read token and a publishing token."""

    lease: Lease
    reading: Repository
    writing: Repository
    showing: Repository  # as `writing`, for what is not worth a wait
    deps: Deps

    @property
    def attempt(self) -> Attempt:
        return self.lease.attempt


async def heal(attempt_id: str, deps: Deps) -> None:
    """Take one attempt from its trigger to its outcome. If it has ended, report the outcome and clean up.

    Any exception is an infrastructure failure: the attempt is queued again.
    """
    delivery = await deps.store.origin(attempt_id)
    with bind_ids(attempt=attempt_id, delivery=delivery):
        was_claimed = await _claim_and_heal(attempt_id, delivery, deps)
        attempt = await deps.store.attempt(attempt_id)
        if attempt is None:
            return
        if was_claimed:
            log.info("attempt left", status=attempt.status, outcome=attempt.outcome, reason=attempt.reason)
        if attempt.status == "ended":
            await _finish(attempt, deps)


async def _claim_and_heal(attempt_id: str, delivery: str | None, deps: Deps) -> bool:
    """Claim and run the attempt; return whether the claim succeeded."""
    was_claimed = False
    try:
        async with deps.store.lease(attempt_id, deps.worker) as lease:
            was_claimed, attempt = True, lease.attempt
            names = {"repository": attempt.repository.full_name, "commit": attempt.head_sha, "trigger": attempt.trigger}
            log.info("attempt claimed", **names, tries=attempt.tries)
            with traces.attempt(attempt_id, delivery, attempt.tries):
                await _heal(_work(lease, deps))
    except (NotClaimed, AttemptCancelled) as refusal:
        log.info("attempt skipped", reason=str(refusal))
    except asyncio.CancelledError:
        log.info("attempt interrupted; it is queued again")
        raise
    return was_claimed


async def _finish(attempt: Attempt, deps: Deps) -> None:
    """Report an outcome that GitHub does not show yet; drop the checkpoints of an attempt that is too old to be forked."""
    if not attempt.is_reported:
        try:
            async with deps.store.notification(attempt.id, deps.worker) as notification:
                await report_end(notification, deps.store, deps.github, deps.secrets, deps.pages_url)
        except NotClaimed as refusal:
            log.info("outcome not reported here", reason=str(refusal))
    elif await deps.store.is_stale(attempt.id):
        await deps.engine.forget(attempt.id)
        await deps.store.forgotten(attempt.id)


async def _heal(work: Work) -> None:
    """Run the story. An error from GitHub ends the attempt, or postpones it while GitHub may recover."""
    try:
        await _run(work)
    except (RateLimited, Unavailable, BadCredentials) as error:
        # Bad credentials say nothing about this attempt: the operator fixes them, or they are being rotated.
        why = f"GitHub: {error}"
        if _can_keep_waiting(work) and not (isinstance(error, Unreachable) and await _is_firewall(work, why)):
            seconds = error.retry_after if isinstance(error, RateLimited) else AWAY_SECONDS
            raise Postponed(why, seconds) from error
        if not error.download_host:
            raise
        ending = _ending_for(error, work.attempt)
        await work.lease.end(ending.outcome, ending.reason, ending.next_step)
    except GitHubError as error:
        ending = _ending_for(error, work.attempt)
        if isinstance(error, Forbidden) and work.attempt.head_sha is None:  # so no check run can tell it
            await _answer(work, ending)
        await work.lease.end(ending.outcome, ending.reason, ending.next_step)


async def _answer(work: Work, ending: NoRepair) -> None:
    """Tell on the pull request of a command why it starts nothing, if the permissions allow that."""
    number = work.attempt.requests[0].pull_number
    if number is None:
        return
    try:
        writing = _writing(work.lease, work.deps, COMMENTING)
        page_url = page_of(work.attempt, work.deps.pages_url)
        await publish.refusal(number, f"{ending.reason} {ending.next_step}", writing, page_url)
    except GitHubError as error:
        log.warning("command not answered", attempt=work.attempt.id, error=str(error))


async def _run(work: Work) -> None:
    """The story itself."""
    lease, attempt = work.lease, work.attempt
    stranger = await check_permission(attempt, work.reading)
    head = stranger or await resolve_head(attempt, work.reading)
    if isinstance(head, NoRepair):
        await react(attempt, work.writing, "confused")  # to strangers, nothing else is said
        if stranger is None and (number := attempt.requests[0].pull_number) is not None:
            page_url = page_of(attempt, work.deps.pages_url)
            await publish.refusal(number, f"{head.reason} {head.next_step}", work.writing, page_url)
        await lease.end(head.outcome, head.reason, head.next_step)
        return
    if not attempt.is_asked_for and await _is_own(work, head):
        await lease.end(Outcome.REFUSED, _OWN_COMMIT, "Review it, or comment `/heal` on its pull request.", reported=True)
        return
    await lease.set_head(head.sha, head.branch)
    await react(attempt, work.writing, "eyes")
    publication = publication_of(work.attempt, work.deps.secrets, work.deps.pages_url)
    if head.pull is not None:
        publication = replace(publication, pull_number=head.pull.number, pull_author=head.pull.author)
    if is_expected := attempt.is_asked_for or attempt.answered_at is not None:
        await publish.progress(publication, work.writing, None)

    with tracing.step("gather", attempt.id):
        gathered = await _unwanted(work, head) or await _gather(work, head)
    if isinstance(gathered, NotWanted) and not is_expected and not await publish.is_shown(publication, work.writing):
        await _leave_unreported(work, gathered)
        return
    if isinstance(gathered, NoRepair):
        await _explain(work, publication, gathered)
        return
    if not is_expected:
        await publish.progress(publication, work.writing, None)

    publication = replace(
        publication,
        run_title=gathered.title,
        run_url=gathered.url,
        tells_author=gathered.configuration.comment_on_pull_request,
        good_sha=next((good.sha for good in gathered.good), ""),
        jobs=tuple(FailedJob(job.workflow_path, job.name, job.failed_step or "") for job in gathered.jobs),
        branch_prefix=work.deps.branch_prefix,
        commit_prefix=gathered.configuration.commit_prefix,
    )
    allowance = await lease.reserve(partial(_narrowed, by=gathered.configuration.quota))
    if isinstance(allowance, str):
        await _explain(work, publication, without_a_run(Outcome.REFUSED, allowance, QUOTA_NEXT))
        return
    gathered = replace(gathered, configuration=_within(allowance, gathered.configuration))
    result = await _repair(work, head, gathered, publication)
    await lease.spend(result.usage)
    if isinstance(result, Waiting):
        await _ask(work, publication, result)
        return

    result = await _add_notes(work, gathered, result)
    traces.set_outcome(Outcome.HEALED if isinstance(result, Repair) else result.outcome)
    with tracing.step("publish", attempt.id):
        await lease.record(StepStarted(step="publish", text="Publishing the result"))
        if isinstance(result, Repair):
            await _publish(work, head, publication, result)
        else:
            await _explain(work, publication, result)


async def _unwanted(work: Work, head: HeadCommit) -> NotWanted | None:
    """An ending if GitHub has moved on; a failure that has joined the attempt since its claim may want it all the same."""
    attempt = await work.deps.store.attempt(work.attempt.id) or work.attempt
    return await has_moved(head, work.reading) or await was_closed(attempt, head, work.reading)


async def _leave_unreported(work: Work, ending: NotWanted) -> None:
    """End the attempt on the pages alone, unless another failure has joined it, which may be wanted."""
    if not await work.lease.gathered({}):
        raise Postponed("another failure of this commit joined the attempt", 0.0)
    await work.lease.end(ending.outcome, ending.reason, ending.next_step, reported=True)


async def _is_own(work: Work, head: HeadCommit) -> bool:
    """Whether the commit is Selfheal's own, wherever its branch is now: automatic repairs of repairs would never end.

    Once a person has merged it, it is a commit like any other.
    """
    attempt_id = attempt_in((await work.reading.commit(head.sha)).message)
    if attempt_id is None:
        return False
    repaired = await work.deps.store.attempt(attempt_id)
    if repaired is None:
        return True
    is_merged = repaired.pull_request is not None and repaired.pull_request.state == "merged"
    return repaired.head_branch != head.branch and not is_merged


async def _gather(work: Work, head: HeadCommit) -> Gathered | NoRepair:
    """All failing jobs of the commit. A workflow that fails later starts a further attempt."""
    lease, attempt = work.lease, work.attempt

    async def tell(text: str) -> None:
        await lease.record(StepStarted(step="gather", text=text))

    if not attempt.by_command:
        await wait_for_ci(head, work.reading, work.deps.wait_for_runs, tell)
    await tell("Reading the failing jobs")
    while True:
        gathered = await gather(attempt, head, work.reading, work.deps.secrets)
        if isinstance(gathered, NoRepair):
            return gathered
        if await lease.gathered(
            {(run.id, run.attempt): (run.name, run.workflow_of_pull_request) for run in gathered.runs}, gathered.others
        ):
            return gathered


def _narrowed(quotas: Quotas, by: DailyQuota) -> Quotas:
    """The operator's quotas, narrowed by the repository's own."""

    def narrower(quota: Quota, limits: DailyLimits, key: str) -> Quota:
        named = {name: f"`quota.{key}.{name}` in {CONFIGURATION}" for name in ("attempts", "tokens", "cost")}
        return Quota(**{name: getattr(quota, name).narrowed(getattr(limits, name), by) for name, by in named.items()})

    repository, person = narrower(quotas.repository, by.repository, "repository"), narrower(quotas.person, by.person, "person")
    return replace(quotas, repository=repository, person=person)


def _within(allowance: Allowance, configuration: Configuration) -> Configuration:
    """The configuration with a budget that the quotas allow; the engine checks the budget before each model call."""
    budget = configuration.budget
    limits = {
        name: min(known, left) if known is not None else left
        for name, known, left in (("tokens", budget.tokens, allowance.tokens), ("cost", budget.cost, allowance.cost))
        if left != inf
    }
    return configuration.model_copy(update={"budget": budget.model_copy(update=limits)})


def _ending_for(error: GitHubError, attempt: Attempt) -> NoRepair:
    """The ending of an attempt that cannot continue because of this error."""
    match error:
        case UnsafeDownload():
            return without_a_run(
                Outcome.ERROR,
                f"Selfheal refused a download: {error}.",
                "Your code is not the cause. Ask whoever runs Selfheal to check where GitHub keeps its logs and archives.",
            )
        case Unavailable(download_host=str(host)) | Forbidden(download_host=str(host)) if host:
            return without_a_run(
                Outcome.ERROR,
                f"The commit's files could not be downloaded from `{host}`, to which GitHub redirects: {error}.",
                f"Your code is not the cause. Ask whoever runs Selfheal to let its server reach `{host}` (a firewall or proxy "
                "has to allow it), then comment `/heal`.",
            )
        case NotFound():
            return without_a_run(
                Outcome.CANCELLED,
                f"{attempt.repository.full_name} or the failing commit is gone, or the App can no longer see it.",
                "If that is unexpected, check the App's installation and its permissions.",
            )
        case Forbidden() if "has been suspended" in error.said:
            return without_a_run(
                Outcome.CANCELLED,
                "The App is suspended on this account.",
                "Unsuspend it in the account's settings, then comment `/heal`.",
            )
        case Forbidden() if error.permission:
            return without_a_run(
                Outcome.REFUSED,
                f"The App lacks a permission on GitHub: {error}.",
                f"Ask the App's owner to grant it the permission {_permission(error.permission)}, and an owner of "
                f"`{attempt.repository.full_name.partition('/')[0]}` to accept that in the installation. Then comment `/heal`.",
            )
        case Forbidden() if "was archived" in error.said:
            return without_a_run(
                Outcome.REFUSED,
                f"{attempt.repository.full_name} is archived, so nothing can be written there.",
                "Unarchive it in its settings, then comment `/heal`.",
            )
        case Forbidden() if "IP allow list" in error.said:
            owner = attempt.repository.full_name.partition("/")[0]
            return without_a_run(
                Outcome.REFUSED,
                f"The IP allow list of `{owner}` does not admit the server of Selfheal.",
                f"Ask whoever runs Selfheal for its address, and an owner of `{owner}` to add it (Settings → Authentication "
                "security). Then comment `/heal`.",
            )
        case Forbidden():
            return without_a_run(
                Outcome.REFUSED,
                f"GitHub refuses this: {error}.",
                "Ask an admin of the repository to change the setting behind this answer, then comment `/heal`.",
            )
        case TooLarge():
            return without_a_run(
                Outcome.REFUSED,
                f"This commit is too large for Selfheal: {error}.",
                "Remove large files from the repository (Git LFS keeps them out of its archive), then comment `/heal`.",
            )
        case _:
            return without_a_run(
                Outcome.ERROR,
                f"GitHub rejected a request by Selfheal: {error}.",
                f"Your code is not the cause. Tell the operator of Selfheal: attempt `{attempt.id[:12]}`.",
            )


def _permission(accepted: str) -> str:
    """ "Contents (read and write)" for "contents=write", as the settings of an App name it: "," is "and", ";" is "or"."""
    levels = {"write": "read and write", "read": "read-only"}

    def named(found: re.Match[str]) -> str:
        return f"{words.capitalized(found[1].replace('_', ' '))} ({levels.get(found[2], found[2])})"

    sets = re.sub(r"(\w+)=(\w+)", named, accepted).replace(",", " and ")
    return ", or ".join(" ".join(each.split()) for each in sets.split(";"))


def _can_keep_waiting(work: Work) -> bool:
    """Whether an attempt may wait longer for GitHub or a sandbox. Time in the queue or waiting for a person does not count."""
    return work.deps.store.clock.now() - _waiting_since(work.attempt) <= GITHUB_WAIT


def _waiting_since(attempt: Attempt) -> datetime:
    return attempt.answered_at or attempt.started_at or attempt.created_at


async def _is_firewall(work: Work, why: str) -> bool:
    """Whether the attempt was postponed for this reason long ago already: a firewall is likelier than an outage."""
    oldest, newest = _waiting_since(work.attempt), work.deps.store.clock.now() - _UNREACHABLE_WAIT
    told = [each for each in await work.deps.store.timeline(work.attempt.id) if oldest <= each.at < newest]
    return any(isinstance(each.event, Degraded) and each.event.why == why for each in told)


async def _repair(work: Work, head: HeadCommit, gathered: Gathered, publication: Publication) -> Repair | NoRepair | Waiting:
    """Run the engine in a sandbox, unless CI's log shows that the code is not at fault.

    If the sandbox fails, the attempt is tried again under the lease's rules; the last failure becomes the outcome.
    """
    attempt, deps = work.attempt, work.deps
    if gathered.infrastructure and not attempt.is_asked_for:
        return without_a_run(
            Outcome.INFRASTRUCTURE,
            f"CI's log shows a failure outside the code: {gathered.infrastructure}",
            f"{_RERUN_FIRST} If they fail again, comment `/heal` to have the code examined.",
        )
    files = await files_of(gathered.merge_sha or head.sha, gathered.workflows, work.reading)
    case = Case(
        id=attempt.id,
        label=f"{attempt.repository.full_name} {head.sha[:10]}",
        archive=files.archive,
        jobs=gathered.jobs,
        notes=(*gathered.notes, *files.notes),
        configuration=gathered.configuration,
        hints=gathered.hints,
        heals_flakiness=any(request.flaky for request in attempt.requests),
        model=attempt.model,
        good=gathered.good,
    )
    blobs, memory = deps.store.blobs, deps.store.memory(attempt.repository.id, deps.embedder)
    try:
        async with Timeline(work.lease, publication, work.showing) as timeline:
            result = await deps.engine.heal(case, blobs=blobs, emit=timeline.emit, reply=attempt.reply, memory=memory)
            if gathered.merge_sha and isinstance(result, Repair):

                async def case_of_head(name: str) -> Case:
                    files = await files_of(head.sha, gathered.workflows, work.reading)
                    own_id = f"{case.id}-{name.replace(' ', '-')}"
                    return replace(case, id=own_id, label=f"{case.label} ({name})", archive=files.archive)

                result = await on_head(result, case_of_head, head, deps.engine, work.reading, blobs, timeline.emit)
        return result
    except SandboxError as error:
        if isinstance(error, SandboxUnavailable) and error.retry_after is not None and _can_keep_waiting(work):
            raise Postponed(str(error), error.retry_after) from error
        if attempt.tries < deps.max_tries:
            raise
        return without_a_run(
            Outcome.INFRASTRUCTURE,
            f"The sandbox failed {attempt.tries} times; the last time: {error}",
            "Comment `/heal` to try again. If it fails again, ask the operator of Selfheal, who has the worker's log.",
        )


async def _add_notes(work: Work, gathered: Gathered, result: Repair | NoRepair) -> Repair | NoRepair:
    """Add what CI's log shows about the cause; if configured, rerun the failed jobs of a flaky or infrastructure failure."""
    if gathered.infrastructure and work.attempt.is_asked_for:
        note = f"Requested by a person, although CI's log shows a failure outside the code: {gathered.infrastructure}"
        result = replace(result, log=replace(result.log, notes=(note, *result.log.notes)))
    is_red = gathered.runs or gathered.others
    if isinstance(result, NoRepair) and result.outcome in (Outcome.NOTHING_FAILED, Outcome.NOT_REPRODUCED) and not is_red:
        result = replace(result, next_step=await _after_queue(work) or result.next_step)
    if isinstance(result, NoRepair) and result.outcome in (Outcome.FLAKY, Outcome.INFRASTRUCTURE) and gathered.runs:
        is_wanted = (gathered.configuration.rerun or work.deps.rerun) == "once"
        reruns = await rerun(work.attempt, gathered.runs, work.deps.store, work.deps.github) if is_wanted else ""
        if reruns:
            result = replace(result, next_step=f"{reruns} {result.next_step.removeprefix(_RERUN_FIRST).strip()}")
    return result


async def _after_queue(work: Work) -> str:
    """What to do if the pull request of a command failed in GitHub's merge queue; "" if it did not, or GitHub does not say.

    A failure that is older than the newest commit says nothing about it.
    """
    if not work.attempt.by_command or work.attempt.head_sha is None:
        return ""
    try:
        head = await work.reading.commit(work.attempt.head_sha)
        queues = await work.reading.failed_queues(head.committer.date)
    except GitHubError:  # it is only a hint
        return ""
    number = work.attempt.requests[0].pull_number
    found = next((match for queue in queues if (match := re.fullmatch(rf"[\w-]+/(.+)/pr-{number}-\w+", queue))), None)
    if found is None:
        return ""
    merge = f"Merge `{found[1]}` into it: if CI fails then, an attempt starts."
    return f"CI failed in GitHub's merge queue, not on this branch. {merge}"


async def _ask(work: Work, publication: Publication, waiting: Waiting) -> None:
    """Show the question on GitHub, then let the attempt wait. Any worker can continue it, even days later."""
    await publish.question(publication, waiting.question, work.writing)
    await work.lease.wait(waiting)


async def _publish(work: Work, head: HeadCommit, publication: Publication, repair: Repair) -> None:
    """Open the pull request, then end the attempt. Running it twice still leaves one branch, one pull request, one comment."""
    try:
        opened = await _open_pull_request(work, head, publication, repair)
    except (Forbidden, Invalid) as error:  # a ruleset, or workflow files that differ from the default branch's
        refusal = f"{(error.said or str(error)).rstrip('.')}."
        await publish.patch(publication, repair, refusal, work.writing)
        reason = f"The repair was verified, but GitHub refuses its pull request: {refusal} The check run shows the patch."
        await work.lease.end(Outcome.REFUSED, reason, by_hand(publication, refusal), reported=True)
        return
    if isinstance(opened, NoRepair):
        await _explain(work, publication, opened)
        return
    await work.lease.record_pull_request(opened, repair.confidence)
    reason = f"Opened pull request #{opened.number}: {repair.title}"
    await work.lease.end(Outcome.HEALED, reason, OUTCOME_TEXTS[Outcome.HEALED].next_step, reported=True)


async def _open_pull_request(
    work: Work, head: HeadCommit, publication: Publication, repair: Repair
) -> PullRequestRecord | NoRepair:
    """The pull request with the repair, or why a verified repair could not be published."""
    if (unwanted := await _unwanted(work, head)) is not None:
        return replace(unwanted, usage=repair.usage, log=repair.log)
    try:
        published = await _published(work, publication, repair)
    except Conflict as error:
        reason = f"It could not be pushed: {error}."
        next_step = "Apply the repair by hand, or push a commit: if CI fails again, a new attempt starts."
        if isinstance(error, BranchTaken):
            next_step = "Remove or rename that branch, then comment `/heal`."
        return NoRepair(Outcome.REFUSED, reason, next_step, repair.usage, repair.log, suspects=(repair,))
    if isinstance(published, NoRepair):  # the branch was deleted meanwhile
        return published
    return PullRequestRecord(published.number, published.branch, published.url, published.state)


async def _published(work: Work, publication: Publication, repair: Repair) -> publish.Published | NoRepair:
    """The published repair. The permission to push workflow files is used only if GitHub refuses the branch without it."""
    try:
        return await publish.pull_request(publication, repair, work.writing)
    except Forbidden as refusal:
        try:
            return await publish.pull_request(publication, repair, _writing(work.lease, work.deps, PUBLISHING_WORKFLOWS))
        except Forbidden:  # the installation does not grant it
            raise refusal from None


async def _explain(work: Work, publication: Publication, result: NoRepair) -> None:
    """Report on GitHub why there is no repair, then end the attempt."""
    await publish.explanation(publication, result, work.writing)
    await work.lease.end(result.outcome, result.reason, result.next_step, reported=True)


def _work(lease: Lease, deps: Deps) -> Work:
    attempt = lease.attempt
    reading = deps.github.repository(attempt.installation_id, attempt.repository, READING)
    showing = deps.github.repository(attempt.installation_id, attempt.repository, PUBLISHING, fence=lease.check, optional=True)
    return Work(lease, reading, _writing(lease, deps, PUBLISHING), showing, deps)


def _writing(lease: Lease, deps: Deps, permissions: Mapping[str, Access]) -> Repository:
    attempt = lease.attempt
    return deps.github.repository(attempt.installation_id, attempt.repository, permissions, fence=lease.check)
