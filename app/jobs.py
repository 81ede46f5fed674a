"""The story of one attempt, from its trigger to its outcome; safe to run again from any line.

    claim → head and permission → gather (failing jobs, logs, configuration) → sandbox → graph → publish → record

Everything that must survive a killed worker is in the database (lease, timeline, checkpoints, blobs) or can be found again at
GitHub by a name that follows from the attempt.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from datetime import timedelta

import structlog

from agent.events import AnyEvent, StepStarted
from agent.task import NoRepair, Outcome, Repair
from app import publish
from app.endings import ENDINGS
from app.engine import Case, Engine, without_a_run
from app.gather import Gathered, Head, Stop, gather, has_moved, resolve_head
from app.github import (
    PUBLISHING,
    READING,
    Conflict,
    Forbidden,
    GitHub,
    GitHubError,
    NotFound,
    RateLimited,
    Repository,
    Unavailable,
)
from app.github.types import Reaction
from app.messages import Publication
from app.store.leases import AttemptCancelled, Lease, NotClaimed, Postponed, TriesExhausted
from app.store.store import Store
from app.store.values import Attempt, PullRequest
from sandbox.base import SandboxError

TELL_SECONDS = 5.0  # the check run on the commit is updated at most this often
AWAY_SECONDS = 30.0  # until GitHub is asked again after it did not answer
PATIENCE = timedelta(hours=6)  # how long an attempt waits for GitHub in all

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
    """Take one attempt from its trigger to its outcome. What it raises is infrastructure: the attempt is queued again."""
    try:
        async with deps.store.lease(attempt_id, deps.worker) as lease:
            await _heal(_work(lease, deps))
    except TriesExhausted as exhausted:
        await _close_check(exhausted.attempt, deps)
    except AttemptCancelled:
        if (ended := await deps.store.attempt(attempt_id)) is not None:
            await _close_check(ended, deps)
    except NotClaimed as refusal:
        log.info("attempt not claimed", attempt=attempt_id, reason=str(refusal))


async def _heal(work: Work) -> None:
    """The story itself; what GitHub answers on the way becomes an outcome, or a wait."""
    lease, attempt = work.lease, work.attempt
    try:
        head = await resolve_head(attempt, work.reading)
        if isinstance(head, Stop):
            # Nobody with a say asked for this: a reaction is answer enough.
            await _react(work, "confused")
            return await lease.end(head.outcome, head.reason, head.next_step)
        await lease.set_head(head.sha, head.branch)
        await _react(work, "eyes")
        publication = publication_of(work.attempt, head, work.deps)
        await publish.progress(publication, work.writing, None)
        await lease.record(StepStarted(step="gather", text="Reading what failed"))
        gathered = await has_moved(head, work.reading) or await gather(attempt, head, work.reading)
        if isinstance(gathered, Stop):
            return await _explained(work, publication, _stopped(gathered))
        publication = replace(publication, run_title=gathered.title, run_url=gathered.url)
        result = await _repaired(work, head, gathered, publication)
        await lease.spend(result.usage)
        await lease.learn(result.log.lessons)
        await _published(work, head, publication, result)
    except NotFound:
        await lease.end(
            Outcome.CANCELLED,
            f"{attempt.repository.full_name}, or the commit to heal, is gone or not visible to the App any more.",
            "If that is unexpected, look at the App's installation and its permissions.",
        )
    except Forbidden as error:
        await lease.end(
            Outcome.REFUSED,
            f"GitHub does not allow the App what it needs: {error}.",
            f"Grant the App the permission {error.permission or 'named above'}, then comment `/heal`.",
        )
    except (RateLimited, Unavailable) as error:
        if work.deps.store.clock.now() - attempt.created_at > PATIENCE:
            raise
        seconds = error.retry_after if isinstance(error, RateLimited) else AWAY_SECONDS
        raise Postponed(f"GitHub: {error}", seconds) from error


async def _repaired(work: Work, head: Head, gathered: Gathered, publication: Publication) -> Repair | NoRepair:
    """Heal in a sandbox. A sandbox that fails is tried again by the lease's rules; the last time it is the outcome."""
    attempt = work.attempt
    case = Case(
        id=attempt.id,
        label=f"{attempt.repository.full_name} {head.sha[:10]}",
        archive=work.reading.archive(head.sha),
        jobs=gathered.jobs,
        configuration=gathered.configuration,
        hints=gathered.hints,
    )
    timeline = Timeline(work, publication)
    try:
        return await work.deps.engine.heal(case, blobs=work.deps.store.blobs, emit=timeline.emit)
    except SandboxError as error:
        if attempt.tries < work.deps.max_tries:
            raise
        return without_a_run(
            Outcome.INFRASTRUCTURE,
            f"The sandbox failed {attempt.tries} times; the last time: {error}",
            "Look at the worker's log; comment `/heal` to try again.",
        )


async def _published(work: Work, head: Head, publication: Publication, result: Repair | NoRepair) -> None:
    """Tell GitHub, then end the attempt. Run twice it leaves one branch, one pull request, one comment."""
    await work.lease.record(StepStarted(step="publish", text="Publishing the result"))
    if isinstance(result, Repair):
        opened = await _opened(work, head, publication, result)
        if isinstance(opened, PullRequest):
            await work.lease.record_pull_request(opened)
            reason = f"Pull request #{opened.number} heals it: {result.title}"
            await work.lease.end(Outcome.HEALED, reason, ENDINGS[Outcome.HEALED].next_step)
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
    return PullRequest(published.number, published.branch, published.url)


async def _explained(work: Work, publication: Publication, result: NoRepair) -> None:
    """Say on GitHub why there is no repair, then end the attempt."""
    await publish.explanation(publication, result, work.writing)
    await work.lease.end(result.outcome, result.reason, result.next_step)


class Timeline:
    """Takes the engine's events: all into the database, the steps also onto the commit's check run."""

    def __init__(self, work: Work, publication: Publication) -> None:
        self._work, self._publication = work, publication
        self._told = 0.0

    async def emit(self, event: AnyEvent) -> None:
        await self._work.lease.record(event)
        if isinstance(event, StepStarted) and time.monotonic() - self._told >= TELL_SECONDS:
            self._told = time.monotonic()
            try:
                await publish.progress(self._publication, self._work.writing, event.text)
            except GitHubError as error:
                # What is shown on the way is a courtesy; what is shown at the end is not.
                log.warning("progress not shown", attempt=self._publication.attempt_id, error=str(error))


def publication_of(attempt: Attempt, head: Head, deps: Deps) -> Publication:
    request = attempt.requests[0]
    return Publication(
        attempt_id=attempt.id,
        number=attempt.number or 1,
        repository=attempt.repository.full_name,
        head_sha=head.sha,
        head_branch=head.branch,
        run_title=request.title,
        pull_number=request.pull_number,
        by_command=attempt.by_command,
        secrets=deps.secrets,
    )


async def _close_check(attempt: Attempt, deps: Deps) -> None:
    """An attempt ended without its worker: nothing of it may go on spinning on GitHub."""
    if attempt.head_sha is None or attempt.head_branch is None or attempt.outcome is None:
        return
    writing = deps.github.repository(attempt.installation_id, attempt.repository, PUBLISHING)
    publication = publication_of(attempt, Head(attempt.head_sha, attempt.head_branch), deps)
    ending = without_a_run(attempt.outcome, attempt.reason or "", attempt.next_step or ENDINGS[attempt.outcome].next_step)
    try:
        await publish.explanation(publication, ending, writing)
    except GitHubError as error:
        log.warning("ending not shown", attempt=attempt.id, error=str(error))


async def _react(work: Work, reaction: Reaction) -> None:
    """Answer a command at once; a failing reaction is no reason to stop."""
    comment_id = work.attempt.requests[0].comment_id
    if comment_id is None:
        return
    try:
        await work.writing.react(comment_id, reaction)
    except GitHubError as error:
        log.warning("reaction failed", attempt=work.attempt.id, error=str(error))


def _work(lease: Lease, deps: Deps) -> Work:
    attempt = lease.attempt
    reading = deps.github.repository(attempt.installation_id, attempt.repository, READING)
    writing = deps.github.repository(attempt.installation_id, attempt.repository, PUBLISHING)
    return Work(lease, reading, writing, deps)


def _stopped(stop: Stop) -> NoRepair:
    return without_a_run(stop.outcome, stop.reason, stop.next_step)
