"""The story of one attempt, from its trigger to its outcome; safe to run again from any line.

    claim → gather (head, permission, failing jobs, logs, configuration) → sandbox → graph → publish → record

Everything that must survive a killed worker is in the database (lease, timeline, checkpoints, blobs) or can be found again at
GitHub by a name that follows from the attempt.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import structlog

from agent.events import AnyEvent, StepStarted
from agent.task import NoRepair, Outcome, ReflectionLog, Repair, Usage
from app import publish
from app.engine import Case, Engine
from app.gather import Head, Stop, gather, has_moved, resolve_head
from app.github import PUBLISHING, READING, Forbidden, GitHub, GitHubError, NotFound, Repository
from app.github.types import Reaction
from app.messages import Publication
from app.store.leases import AttemptCancelled, Lease, NotClaimed, TriesExhausted
from app.store.store import Store
from app.store.values import Attempt, PullRequest
from sandbox.base import SandboxError

TELL_SECONDS = 5.0  # the check run on the commit is updated at most this often

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Deps:
    """What a worker holds open while it lives."""

    store: Store
    github: GitHub
    engine: Engine
    worker: str  # names this process in leases
    max_tries: int


async def heal(attempt_id: str, deps: Deps) -> None:
    """Take one attempt from its trigger to its outcome. What it raises is infrastructure: the attempt is queued again."""
    try:
        async with deps.store.lease(attempt_id, deps.worker) as lease:
            await _heal(lease, deps)
    except TriesExhausted as exhausted:
        await _close_check(exhausted.attempt, deps)
    except AttemptCancelled:
        ended = await deps.store.attempt(attempt_id)
        if ended is not None:
            await _close_check(ended, deps)
    except NotClaimed as refusal:
        log.info("attempt not claimed", attempt=attempt_id, reason=str(refusal))


async def _heal(lease: Lease, deps: Deps) -> None:
    attempt = lease.attempt
    reading = deps.github.repository(attempt.installation_id, attempt.repository, READING)
    writing = deps.github.repository(attempt.installation_id, attempt.repository, PUBLISHING)
    try:
        head = await resolve_head(attempt, reading)
        if isinstance(head, Stop):
            # Nobody with a say asked for this: a reaction is answer enough.
            await _react(attempt, writing, "confused")
            await lease.end(head.outcome, head.reason, head.next_step)
            return
        attempt = await lease.set_head(head.sha, head.branch)
        await _react(attempt, writing, "eyes")
        result = await _repaired(lease, head, reading, writing, deps)
        await lease.spend(result.usage)
        await lease.learn(result.log.lessons)
        await _published(lease, head, result, reading, writing)
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


async def _repaired(lease: Lease, head: Head, reading: Repository, writing: Repository, deps: Deps) -> Repair | NoRepair:
    """Gather, then heal in a sandbox."""
    attempt = lease.attempt
    publication = publication_of(attempt, head)
    await publish.progress(publication, writing, None)
    await lease.record(StepStarted(step="gather", text="Reading the failing jobs"))
    gathered = await has_moved(attempt, head, reading) or await gather(attempt, head, reading)
    if isinstance(gathered, Stop):
        return _stopped(gathered)
    timeline = Timeline(lease, publication, writing)
    case = Case(
        id=attempt.id,
        label=f"{attempt.repository.full_name} {head.sha[:10]}",
        archive=reading.archive(head.sha),
        jobs=gathered.jobs,
        configuration=gathered.configuration,
        hints=gathered.hints,
    )
    try:
        return await deps.engine.heal(case, blobs=deps.store.blobs, emit=timeline.emit)
    except SandboxError as error:
        if attempt.tries < deps.max_tries:
            raise  # another worker, or this one a little later, may have more luck
        return _stopped(
            Stop(
                Outcome.INFRASTRUCTURE,
                f"The sandbox failed {attempt.tries} times; the last time: {error}",
                "Look at the worker's log; comment `/heal` to try again.",
            )
        )


async def _published(lease: Lease, head: Head, result: Repair | NoRepair, reading: Repository, writing: Repository) -> None:
    """Tell GitHub, then end the attempt. Run twice it leaves one branch, one pull request, one comment."""
    publication = publication_of(lease.attempt, head)
    if isinstance(result, Repair) and (moved := await has_moved(lease.attempt, head, reading)):
        result = replace(_stopped(moved), usage=result.usage, log=result.log)
    await lease.record(StepStarted(step="publish", text="Publishing"))
    if isinstance(result, NoRepair):
        await publish.explanation(publication, result, writing)
        await lease.end(result.outcome, result.reason, result.next_step)
        return
    published = await publish.pull_request(publication, result, writing)
    if isinstance(published, NoRepair):  # the branch went away just now
        await publish.explanation(publication, published, writing)
        await lease.end(published.outcome, published.reason, published.next_step)
        return
    await lease.record_pull_request(PullRequest(published.number, published.branch, published.url))
    await lease.end(
        Outcome.HEALED, f"Pull request #{published.number} heals it: {result.title}", "Review the pull request and merge it."
    )


class Timeline:
    """Takes the engine's events: all into the database, the steps also onto the commit's check run."""

    def __init__(self, lease: Lease, publication: Publication, repository: Repository) -> None:
        self._lease, self._publication, self._repository = lease, publication, repository
        self._told = 0.0

    async def emit(self, event: AnyEvent) -> None:
        await self._lease.record(event)
        if isinstance(event, StepStarted) and time.monotonic() - self._told >= TELL_SECONDS:
            self._told = time.monotonic()
            try:
                await publish.progress(self._publication, self._repository, event.text)
            except GitHubError as error:
                # What is shown on the way is a courtesy; what is shown at the end is not.
                log.warning("progress not shown", attempt=self._publication.attempt_id, error=str(error))


def publication_of(attempt: Attempt, head: Head) -> Publication:
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
    )


async def _close_check(attempt: Attempt, deps: Deps) -> None:
    """An attempt ended without its worker: nothing of it may go on spinning on GitHub."""
    if attempt.head_sha is None or attempt.head_branch is None or attempt.outcome is None:
        return
    writing = deps.github.repository(attempt.installation_id, attempt.repository, PUBLISHING)
    ending = _stopped(Stop(attempt.outcome, attempt.reason or "", attempt.next_step or ""))
    try:
        await publish.explanation(publication_of(attempt, Head(attempt.head_sha, attempt.head_branch)), ending, writing)
    except GitHubError as error:
        log.warning("ending not shown", attempt=attempt.id, error=str(error))


async def _react(attempt: Attempt, repository: Repository, reaction: Reaction) -> None:
    """Answer a command at once; a failing reaction is no reason to stop."""
    comment_id = attempt.requests[0].comment_id
    if comment_id is None:
        return
    try:
        await repository.react(comment_id, reaction)
    except GitHubError as error:
        log.warning("reaction failed", attempt=attempt.id, error=str(error))


def _stopped(stop: Stop) -> NoRepair:
    empty = ReflectionLog(diagnosis=None, iterations=(), lessons=(), rungs=())
    return NoRepair(stop.outcome, stop.reason, stop.next_step, Usage(), empty)
