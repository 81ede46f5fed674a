"""What GitHub shows of an attempt besides its result: an answer to who asked, its steps, and an end that no worker told.

An attempt may end without a worker that could tell: a webhook cancels it, its worker dies for the last time, GitHub does not
answer. Such an end is kept as untold, and told by whichever worker comes by; nothing may go on spinning on GitHub.
"""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta

import structlog

from agent.case import without_a_run
from agent.contract.events import AnyEvent, StepStarted
from app.endings import ENDINGS
from app.github import PUBLISHING, BadCredentials, GitHub, GitHubError, RateLimited, Repository, Unavailable
from app.github.types import Reaction
from app.publish import publish
from app.publish.messages import Publication
from app.store.leases.leases import Lease
from app.store.leases.notifications import Telling
from app.store.store import Store
from app.store.values import Attempt

STEP_SECONDS = 5.0  # the check run on the commit is updated at most this often, and for at most this long
AWAY_SECONDS = 30.0  # until GitHub is asked again after it did not answer
PATIENCE = timedelta(hours=6)  # how long an attempt waits for GitHub in all

log = structlog.get_logger()


def publication_of(attempt: Attempt, secrets: tuple[str, ...]) -> Publication:
    """How an attempt whose head is known is spoken of. `secrets`: exact texts that are never published."""
    if attempt.head_sha is None or attempt.head_branch is None:
        raise ValueError(f"the head of attempt {attempt.id} is not known yet")
    request = attempt.requests[0]
    return Publication(
        attempt_id=attempt.id,
        number=attempt.number or 1,
        repository=attempt.repository.full_name,
        head_sha=attempt.head_sha,
        head_branch=attempt.head_branch,
        run_title=request.title,
        pull_number=request.pull_number,
        by_command=attempt.by_command,
        secrets=secrets,
    )


async def react(attempt: Attempt, repository: Repository, reaction: Reaction) -> None:
    """Answer a command at once; a failing reaction is no reason to stop."""
    comment_id = attempt.requests[0].comment_id
    if comment_id is None:
        return
    try:
        await repository.react(comment_id, reaction)
    except GitHubError as error:
        log.warning("reaction failed", attempt=attempt.id, error=str(error))


class Timeline:
    """Takes the engine's events: all into the database, the steps also onto the commit's check run."""

    def __init__(self, lease: Lease, publication: Publication, repository: Repository) -> None:
        self._lease, self._publication, self._repository = lease, publication, repository
        self._shown = 0.0

    async def emit(self, event: AnyEvent) -> None:
        """What is shown on the way is a courtesy, and may neither fail the work nor use up its time."""
        await self._lease.record(event)
        if not isinstance(event, StepStarted) or time.monotonic() - self._shown < STEP_SECONDS:
            return
        try:
            async with asyncio.timeout(STEP_SECONDS):
                await publish.progress(self._publication, self._repository, event.text)
        except (GitHubError, TimeoutError) as error:
            log.warning("progress not shown", attempt=self._publication.attempt_id, error=str(error) or "GitHub is slow")
        self._shown = time.monotonic()


async def tell_end(telling: Telling, store: Store, github: GitHub, secrets: tuple[str, ...]) -> None:
    """Show the end of an attempt that its worker could not tell. While GitHub is away it stays untold, for hours at most.

    What GitHub refuses for good (the repository is gone, the App may not write) is told as far as it can be. Raises `LeaseLost`
    before it writes what another worker may be writing.
    """
    attempt = telling.attempt
    if attempt.outcome is None or attempt.ended_at is None:
        raise ValueError(f"attempt {attempt.id} has not ended")
    ending = without_a_run(attempt.outcome, attempt.reason or "", attempt.next_step or ENDINGS[attempt.outcome].next_step)
    repository = github.repository(attempt.installation_id, attempt.repository, PUBLISHING, fence=telling.check)
    try:
        await publish.explanation(publication_of(attempt, secrets), ending, repository)
    except GitHubError as error:
        log.warning("end not told", attempt=attempt.id, error=str(error))
        if isinstance(error, RateLimited | Unavailable | BadCredentials) and store.clock.now() - attempt.ended_at < PATIENCE:
            telling.later(error.retry_after if isinstance(error, RateLimited) else AWAY_SECONDS)
