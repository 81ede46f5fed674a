"""Shows an attempt on GitHub before and after its result: a reaction to the command, the steps, reruns, a late outcome.

An attempt can end without a report on GitHub: a webhook cancels it, its worker dies on the last try, or GitHub does not answer.
Such an outcome is stored as unreported. Any worker reports it later, so that no check run stays in progress forever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Self

import structlog

from agent.case import without_a_run
from agent.contract.events import AnyEvent, StepStarted
from app.github.client import GitHub
from app.github.errors import BadCredentials, Forbidden, GitHubError, RateLimited, Unavailable
from app.github.repository import Repository
from app.github.types import CHECKING, PUBLISHING, RERUNNING, Access, Reaction, WorkflowRun
from app.publish import publish
from app.publish.messages import Publication
from app.publish.outcomes import OUTCOME_TEXTS
from app.stopping import cancel_and_wait
from app.store.leases.heartbeat import LeaseLost
from app.store.leases.leases import Lease, NotificationLease
from app.store.store import Store
from app.store.values import Attempt

STEP_SECONDS = 15.0  # between two updates of the check run
MOMENT = 1.0  # at least, before a step is shown that had to give way to another write
STEP_TIMEOUT = 5.0  # of one
AWAY_SECONDS = 30.0  # delay before the next try when GitHub does not answer
MOST_REACTIONS = 5  # to commands that are handled together: writes to GitHub are limited
GITHUB_WAIT = timedelta(hours=6)  # total time that an attempt waits for GitHub

log = structlog.get_logger()


def publication_of(attempt: Attempt, secrets: tuple[str, ...], pages_url: str = "") -> Publication:
    """The facts to publish about an attempt whose head is known. `secrets`: exact texts that are never published."""
    if attempt.head_sha is None or attempt.head_branch is None:
        raise ValueError(f"the head of attempt {attempt.id} is not known yet")
    request = attempt.requests[0]
    return Publication(
        attempt_id=attempt.id,
        number=attempt.number or 1,
        head_sha=attempt.head_sha,
        head_branch=attempt.head_branch,
        run_title=request.title,
        pull_number=request.pull_number,
        answered=attempt.answered_at.strftime("%Y%m%dT%H%M%S") if attempt.answered_at else "",
        by_command=attempt.by_command,
        page_url=page_of(attempt, pages_url),
        secrets=secrets,
    )


def page_of(attempt: Attempt, pages_url: str) -> str:
    """URL of the attempt's page; "" if people cannot reach the pages."""
    return f"{pages_url.rstrip('/')}/attempts/{attempt.id}" if pages_url else ""


async def react(attempt: Attempt, repository: Repository, reaction: Reaction) -> None:
    """Acknowledge its newest commands with a reaction; if that fails, the attempt continues."""
    for comment_id in [request.comment_id for request in attempt.requests if request.comment_id is not None][-MOST_REACTIONS:]:
        try:
            await repository.react(comment_id, reaction)
        except GitHubError as error:  # such as a comment that was deleted
            log.warning("reaction failed", attempt=attempt.id, error=str(error))


class Timeline:
    """Records the engine's events, and shows the latest step on the commit's check run until its `async with` block ends.

    Showing progress is optional: it neither fails nor delays the attempt. `repository`: refuses writes that would have to wait.
    """

    def __init__(self, lease: Lease, publication: Publication, repository: Repository) -> None:
        self._lease, self._publication, self._repository = lease, publication, repository
        self._latest = self._shown = ""
        self._showing: asyncio.Task[None] | None = None
        self._writing = asyncio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        async with self._writing:  # a write on its way must not reach GitHub after the outcome
            if self._showing is not None:
                await cancel_and_wait(self._showing)

    async def emit(self, event: AnyEvent) -> None:
        await self._lease.record(event)
        if isinstance(event, StepStarted) and event.text:
            self._latest = event.text
            if self._showing is None or self._showing.done():
                self._showing = asyncio.create_task(self._show())

    async def _show(self) -> None:
        while self._latest != self._shown:
            pause = STEP_SECONDS
            async with self._writing:
                self._shown = self._latest
                try:
                    async with asyncio.timeout(STEP_TIMEOUT):
                        await publish.progress(self._publication, self._repository, self._shown)
                except RateLimited as error:  # another write has just been sent
                    self._shown, pause = "", min(STEP_SECONDS, max(MOMENT, error.retry_after))
                except (GitHubError, LeaseLost, TimeoutError) as error:
                    log.info("progress not shown", attempt=self._publication.attempt_id, error=str(error) or "GitHub is slow")
            await asyncio.sleep(pause)


async def report_end(
    notification: NotificationLease, store: Store, github: GitHub, secrets: tuple[str, ...], pages_url: str = ""
) -> None:
    """Report an outcome that the attempt's worker could not report; while GitHub is unavailable, leave it for a later try.

    A permanent refusal by GitHub (repository gone, permission missing) or an outage of hours counts as reported. Raises
    `LeaseLost` before it writes anything that another worker may be writing.
    """
    attempt = notification.attempt
    if attempt.outcome is None or attempt.ended_at is None:
        raise ValueError(f"attempt {attempt.id} has not ended")
    ending = without_a_run(attempt.outcome, attempt.reason or "", attempt.next_step or OUTCOME_TEXTS[attempt.outcome].next_step)
    publication = publication_of(attempt, secrets, pages_url)

    def writing(permissions: Mapping[str, Access]) -> Repository:
        return github.repository(attempt.installation_id, attempt.repository, permissions, fence=notification.check)

    try:
        try:
            await publish.explanation(publication, ending, writing(PUBLISHING))
        except Forbidden:  # a check run needs only one of these permissions
            await publish.explanation(publication, ending, writing(CHECKING))
    except GitHubError as error:
        log.warning("outcome not reported", attempt=attempt.id, error=str(error))
        if isinstance(error, RateLimited | Unavailable | BadCredentials) and store.clock.now() - attempt.ended_at < GITHUB_WAIT:
            notification.retry_later(error.retry_after if isinstance(error, RateLimited) else AWAY_SECONDS)


async def rerun(attempt: Attempt, runs: Iterable[WorkflowRun], store: Store, github: GitHub) -> str:
    """Ask GitHub to rerun the failed jobs of each run, only once even if several attempts want it or a worker dies meanwhile.

    The database records the request before it is sent, and GitHub's own count of a run's attempts is checked too. Returns
    sentences for people about what was done. A refusal by GitHub is reported in them, not raised.
    """
    repository = github.repository(attempt.installation_id, attempt.repository, RERUNNING)
    sentences = []
    for run in runs:
        if run.attempt > 1:
            sentences.append(
                f"{run.name} was already rerun (GitHub's run attempt {run.attempt}); Selfheal does not rerun it again."
            )
        elif not await store.claim_rerun(attempt.id, attempt.repository.id, run.id):
            sentences.append(f"Selfheal has already asked GitHub to rerun the failed jobs of {run.name}.")
        else:
            try:
                await repository.rerun_failed_jobs(run.id)
            except GitHubError as error:
                sentences.append(f"The failed jobs of {run.name} could not be rerun: {error}. Rerun them yourself.")
            else:
                sentences.append(f"Selfheal reran the failed jobs of {run.name} once.")
    return " ".join(sentences)
