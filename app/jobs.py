"""The story of one attempt, from its trigger to its outcome; safe to run again from any line.

    claim → head and permission → gather (failing jobs, logs, configuration) → sandbox → graph → publish → record
                                                                                          └─▶ ask a person, sleep

Everything that must survive a killed worker is in the database (lease, timeline, blobs), in the file of checkpoints beside it,
or can be found again at GitHub by a name that follows from the attempt. Whoever ended an attempt: the worker that finds it
ended tells GitHub, unless that was done, and what it leaves behind is dropped when nobody is to fork it any more.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import Literal

import structlog

from agent.case import Case, without_a_run
from agent.contract.events import StepStarted
from agent.contract.outcome import NoRepair, Outcome, Repair
from agent.engine import Engine
from agent.models import tracing
from agent.question import Waiting
from app.attempt.gather import Gathered, Head, Stop, gather, has_moved, resolve_head
from app.attempt.progress import AWAY_SECONDS, PATIENCE, Timeline, publication_of, react, tell_end
from app.attempt.rerun import rerun
from app.endings import ENDINGS
from app.github import (
    PUBLISHING,
    READING,
    BadCredentials,
    Conflict,
    Forbidden,
    GitHub,
    GitHubError,
    NotFound,
    RateLimited,
    Repository,
    TooLarge,
    Unavailable,
)
from app.observability import traces
from app.observability.log import bound
from app.publish import publish
from app.publish.messages import Publication
from app.store.leases.claims import NotClaimed, Postponed
from app.store.leases.leases import AttemptCancelled, Lease
from app.store.memories.memories import Embedder
from app.store.store import Store
from app.store.values import Attempt, PullRequest
from sandbox.base import SandboxError, SandboxUnavailable

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Deps:
    """What a worker holds open while it lives."""

    store: Store
    github: GitHub
    engine: Engine
    worker: str  # names this process in leases
    max_tries: int
    secrets: tuple[str, ...]  # exact texts that are never published
    rerun: Literal["never", "once"] = "never"  # of failed jobs, where a repository does not say
    embedder: Embedder | None = None  # finds memories by meaning, beside their words


@dataclass(frozen=True, slots=True)
class Work:
    """One attempt in hand: its lease, and its repository as the two tokens see it."""

    lease: Lease
    reading: Repository
    writing: Repository
    deps: Deps

    @property
    def attempt(self) -> Attempt:
        return self.lease.attempt


async def heal(attempt_id: str, deps: Deps) -> None:
    """Take one attempt from its trigger to its outcome, and tell GitHub of one that ended without its worker.

    What it raises is infrastructure: the attempt is queued again.
    """
    delivery = await deps.store.origin(attempt_id)
    with bound(attempt=attempt_id, delivery=delivery):
        await _claimed(attempt_id, delivery, deps)


async def _claimed(attempt_id: str, delivery: str | None, deps: Deps) -> None:
    claimed: Attempt | None = None
    try:
        async with deps.store.lease(attempt_id, deps.worker) as lease:
            claimed = lease.attempt
            names = {"repository": claimed.repository.full_name, "commit": claimed.head_sha, "trigger": claimed.trigger}
            log.info("attempt claimed", **names, tries=claimed.tries)
            with traces.attempt(attempt_id, delivery, claimed.tries):
                await _heal(_work(lease, deps))
    except (NotClaimed, AttemptCancelled) as refusal:
        log.info("attempt not worked on", reason=str(refusal))
    except asyncio.CancelledError:
        log.info("attempt interrupted; it is queued again")
        raise
    attempt = await deps.store.attempt(attempt_id)
    if attempt is not None and claimed is not None:
        log.info("attempt left", status=attempt.status, outcome=attempt.outcome, reason=attempt.reason)
    if attempt is None or attempt.status != "ended":
        return
    if not attempt.told:
        try:
            async with deps.store.telling(attempt_id, deps.worker) as telling:
                await tell_end(telling, deps.store, deps.github, deps.secrets)
        except NotClaimed as refusal:
            log.info("end not told here", reason=str(refusal))
    elif await deps.store.is_stale(attempt_id):
        await deps.engine.forget(attempt_id)
        await deps.store.forgotten(attempt_id)


async def _heal(work: Work) -> None:
    """The story itself; what GitHub answers on the way becomes an outcome, or a wait."""
    lease, attempt = work.lease, work.attempt
    try:
        head = await resolve_head(attempt, work.reading)
        if isinstance(head, Stop):
            # Nobody with a say asked for this: a reaction is answer enough.
            await react(attempt, work.writing, "confused")
            return await lease.end(head.outcome, head.reason, head.next_step)
        await lease.set_head(head.sha, head.branch)
        await react(attempt, work.writing, "eyes")
        publication = publication_of(work.attempt, work.deps.secrets)
        await publish.progress(publication, work.writing, None)
        await lease.record(StepStarted(step="gather", text="Reading what failed"))
        with tracing.step("gather", attempt.id):
            gathered = await has_moved(head, work.reading) or await gather(attempt, head, work.reading, work.deps.secrets)
        if isinstance(gathered, Stop):
            return await _explained(work, publication, _stopped(gathered))
        publication = replace(publication, run_title=gathered.title, run_url=gathered.url)
        if gathered.infrastructure and not _is_wanted_anyway(attempt):
            result: Repair | NoRepair | Waiting = _outside_the_code(gathered.infrastructure)
        else:
            result = await _repaired(work, head, gathered, publication)
        await lease.spend(result.usage)
        if isinstance(result, Waiting):
            return await _asked(work, publication, result)
        told = await _told_all(work, gathered, result)
        traces.ends_as(Outcome.HEALED if isinstance(told, Repair) else told.outcome)
        with tracing.step("publish", attempt.id):
            await _published(work, head, publication, told)
    except (RateLimited, Unavailable, BadCredentials) as error:
        # Bad credentials are no answer to this attempt: they are the operator's to mend, or being changed just now.
        if _has_patience(work):
            seconds = error.retry_after if isinstance(error, RateLimited) else AWAY_SECONDS
            raise Postponed(f"GitHub: {error}", seconds) from error
        raise
    except GitHubError as error:
        ending = _ending(error, attempt)
        await lease.end(ending.outcome, ending.reason, ending.next_step)


def _ending(error: GitHubError, attempt: Attempt) -> Stop:
    """How an attempt ends whose way GitHub has closed."""
    match error:
        case NotFound():
            return Stop(
                Outcome.CANCELLED,
                f"{attempt.repository.full_name}, or the commit to heal, is gone or not visible to the App any more.",
                "If that is unexpected, look at the App's installation and its permissions.",
            )
        case Forbidden():
            return Stop(
                Outcome.REFUSED,
                f"GitHub does not allow the App what it needs: {error}.",
                f"Grant the App the permission {error.permission or 'named above'}, then comment `/heal`.",
            )
        case TooLarge():
            return Stop(
                Outcome.REFUSED,
                f"This commit is too big for Selfheal: {error}.",
                "Remove large files from the repository (Git LFS keeps them out of its archive), then comment `/heal`.",
            )
        case _:
            return Stop(
                Outcome.ERROR,
                f"GitHub refuses what Selfheal asked of it: {error}.",
                "Nothing is wrong with your code because of this; please report it with the attempt's id.",
            )


def _has_patience(work: Work) -> bool:
    """Whether the attempt may wait on for what is away. While it waited for a worker or a person, nothing was waited for."""
    begun = work.attempt.answered_at or work.attempt.started_at or work.attempt.created_at
    return work.deps.store.clock.now() - begun <= PATIENCE


async def _repaired(work: Work, head: Head, gathered: Gathered, publication: Publication) -> Repair | NoRepair | Waiting:
    """Heal in a sandbox. A sandbox that fails is tried again by the lease's rules; the last time it is the outcome."""
    attempt = work.attempt
    case = Case(
        id=attempt.id,
        label=f"{attempt.repository.full_name} {head.sha[:10]}",
        archive=work.reading.archive(head.sha),
        jobs=gathered.jobs,
        configuration=gathered.configuration,
        hints=gathered.hints,
        heals_flakiness=any(request.flaky for request in attempt.requests),
        model=attempt.model,
    )
    timeline = Timeline(work.lease, publication, work.writing)
    try:
        store = work.deps.store
        memory = store.memory(attempt.repository.id, work.deps.embedder)
        return await work.deps.engine.heal(case, blobs=store.blobs, emit=timeline.emit, reply=attempt.reply, memory=memory)
    except SandboxError as error:
        if isinstance(error, SandboxUnavailable) and error.retry_after is not None and _has_patience(work):
            raise Postponed(str(error), error.retry_after) from error
        if attempt.tries < work.deps.max_tries:
            raise
        return without_a_run(
            Outcome.INFRASTRUCTURE,
            f"The sandbox failed {attempt.tries} times; the last time: {error}",
            "Look at the worker's log; comment `/heal` to try again.",
        )


def _is_wanted_anyway(attempt: Attempt) -> bool:
    """A person's word counts more than what a log says."""
    return attempt.by_command or attempt.forked_from is not None


def _outside_the_code(evidence: str) -> NoRepair:
    return without_a_run(
        Outcome.INFRASTRUCTURE,
        f"CI's log says that nothing in the repository is at fault: {evidence}",
        "Run the failed jobs again; comment `/heal` if the code is to be looked at nevertheless.",
    )


async def _told_all(work: Work, gathered: Gathered, result: Repair | NoRepair) -> Repair | NoRepair:
    """The result, with what CI's log said of its cause, and whether the failed jobs run again."""
    if gathered.infrastructure and _is_wanted_anyway(work.attempt):
        note = f"A person asked, although CI's log says that the code is not at fault: {gathered.infrastructure}"
        result = replace(result, log=replace(result.log, notes=(note, *result.log.notes)))
    if isinstance(result, NoRepair) and result.outcome in (Outcome.FLAKY, Outcome.INFRASTRUCTURE) and gathered.runs:
        wanted = (gathered.configuration.rerun or work.deps.rerun) == "once"
        said = await rerun(work.attempt, gathered.runs, work.deps.store, work.deps.github) if wanted else ""
        result = replace(result, next_step=f"{said} {result.next_step}".strip())
    return result


async def _asked(work: Work, publication: Publication, waiting: Waiting) -> None:
    """Show the question on GitHub, then let the attempt sleep; the reply may come days later, to any worker."""
    await publish.question(publication, waiting.question, work.writing)
    await work.lease.wait(waiting)


async def _published(work: Work, head: Head, publication: Publication, result: Repair | NoRepair) -> None:
    """Tell GitHub, then end the attempt. Run twice it leaves one branch, one pull request, one comment."""
    await work.lease.record(StepStarted(step="publish", text="Publishing the result"))
    if isinstance(result, Repair):
        opened = await _opened(work, head, publication, result)
        if isinstance(opened, PullRequest):
            await work.lease.record_pull_request(opened, result.confidence)
            reason = f"Pull request #{opened.number} heals it: {result.title}"
            await work.lease.end(Outcome.HEALED, reason, ENDINGS[Outcome.HEALED].next_step, told=True)
            return
        result = opened
    await _explained(work, publication, result)


async def _opened(work: Work, head: Head, publication: Publication, repair: Repair) -> PullRequest | NoRepair:
    """The pull request with the repair, or why it could not be opened although the repair was verified."""
    if (moved := await has_moved(head, work.reading)) is not None:
        return replace(_stopped(moved), usage=repair.usage, log=repair.log)
    try:
        published = await publish.pull_request(publication, repair, work.writing)
    except Conflict as error:
        reason = f"The repair was verified, but it could not be published: {error}."
        next_step = "Remove or rename that branch, then comment `/heal`."
        return NoRepair(Outcome.REFUSED, reason, next_step, repair.usage, repair.log)
    if isinstance(published, NoRepair):  # the branch went away just now
        return published
    return PullRequest(published.number, published.branch, published.url, published.state)


async def _explained(work: Work, publication: Publication, result: NoRepair) -> None:
    """Say on GitHub why there is no repair, then end the attempt."""
    await publish.explanation(publication, result, work.writing)
    await work.lease.end(result.outcome, result.reason, result.next_step, told=True)


def _work(lease: Lease, deps: Deps) -> Work:
    attempt = lease.attempt
    reading = deps.github.repository(attempt.installation_id, attempt.repository, READING)
    writing = deps.github.repository(attempt.installation_id, attempt.repository, PUBLISHING, fence=lease.check)
    return Work(lease, reading, writing, deps)


def _stopped(stop: Stop) -> NoRepair:
    return without_a_run(stop.outcome, stop.reason, stop.next_step)
