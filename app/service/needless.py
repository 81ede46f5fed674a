"""Tidies up on GitHub what nobody needs any more: CI is green without our pull request, or our report is outdated."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from random import uniform

import structlog
from sqlalchemy.exc import SQLAlchemyError

from app.attempt.progress import publication_of
from app.github.client import GitHub
from app.github.errors import BadCredentials, Forbidden, GitHubError, Invalid, NotFound, RateLimited, Unavailable
from app.github.repository import Repository
from app.github.types import PUBLISHING, READING, CheckRun, CommitStatus, WorkflowRun
from app.publish import messages, publish
from app.publish.messages import Publication
from app.store import looks
from app.store.store import Store
from app.store.values import Attempt
from webhooks.intake import RepairRequest, RepositoryRef
from webhooks.triggers import FAILING, one_line

_LOOK = "tidying"
_PAUSE = (540.0, 660.0)  # seconds between two looks; workers that start together spread out
_LASTING = 1500.0  # seconds without a look, after which another worker takes it over
_MOST_WAITING = 200  # attempts; the newest are looked at
_MOST_KNOWN = 500  # repositories
_PATIENCE = timedelta(hours=1)  # what other services leave pending for longer may wait for a person, or for the merge
_WATCHED = timedelta(days=3)  # how long after its end an attempt's report is brought up to date

Tidy = Callable[[Attempt, Repository, Repository], Awaitable[bool]]
"""Takes an attempt, and its repository for reading and for writing; returns whether it did something."""

Known = dict[tuple[int, RepositoryRef], tuple[Repository, Repository]]
"""Repositories of earlier looks, by installation: their tokens and ETags are used again, so that reads cost no limit."""

_Part = int | str | tuple[str, str]
"""A part of CI that runs anew for each commit: a workflow's id, a status's name, or a check run's App and name."""

log = structlog.get_logger()


async def close_needless(github: GitHub, store: Store, known: Known | None = None) -> int:
    """Close the open pull requests of ours that are needless; returns how many. Raises as `_each`, and `SQLAlchemyError`."""
    close = partial(_close_if_needless, store=store)
    attempts, known = await store.attempts_with_open_pull_request(), {} if known is None else known
    return await _each(attempts, close, github, known, "open pull request not looked at")


async def update_outdated(github: GitHub, store: Store, known: Known | None = None) -> int:
    """Say on reports that nothing is left to do, once that is so; returns on how many attempts'.

    Raises as `_each`, and `SQLAlchemyError`.

    The outcome stays: the report is about the commit as it was.
    """
    known = {} if known is None else known
    ended = await store.attempts_to_outdate(store.clock.now() - _WATCHED)
    done = await _each(ended, partial(_update_if_outdated, store=store), github, known, "report not brought up to date")
    waiting = await store.attempts(status="waiting", limit=_MOST_WAITING)
    return done + await _each(waiting, partial(_end_if_moved, store=store), github, known, "waiting attempt not looked at")


async def _each(attempts: Iterable[Attempt], tidy: Tidy, github: GitHub, known: Known, failed: str) -> int:
    """How many of the attempts `tidy` did something about; `failed`: what is logged if GitHub refuses that.

    Raises `GitHubError` if GitHub could be asked about none of them.
    """
    done, limited = 0, set[int]()  # installations that GitHub wants to rest
    failure, is_reached = None, False
    for attempt in attempts:
        if attempt.installation_id in limited:
            continue
        try:
            done += await tidy(attempt, *_repositories(attempt, github, known))
            is_reached = True
        except RateLimited:
            limited.add(attempt.installation_id)
        except GitHubError as error:  # one repository says nothing about the others
            log.warning(failed, attempt=attempt.id, error=str(error))
            if isinstance(error, Unavailable | BadCredentials):
                failure = error
            else:
                is_reached = True
    if failure is not None and not is_reached:
        raise failure
    return done


def _repositories(attempt: Attempt, github: GitHub, known: Known) -> tuple[Repository, Repository]:
    """The attempt's repository, for reading and for writing."""
    key = attempt.installation_id, attempt.repository
    if key not in known:
        if len(known) == _MOST_KNOWN:
            del known[next(iter(known))]
        reading, writing = (github.repository(*key, permissions) for permissions in (READING, PUBLISHING))
        known[key] = reading, writing
    return known[key]


async def _close_if_needless(attempt: Attempt, reading: Repository, writing: Repository, store: Store) -> bool:
    known = attempt.pull_request
    if known is None or attempt.head_branch is None:
        raise ValueError(f"attempt {attempt.id} has no pull request")
    pull = await reading.pull(known.number)
    if pull.state == "closed":  # its delivery was lost
        await store.record_pull_request_state(attempt.repository.id, pull.number, "merged" if pull.merged_at else "closed")
        return False
    if (suite := await reading.queued_suite(pull.head.sha)) is not None:
        try:
            await writing.report_again(suite)
        except (NotFound, Forbidden, Invalid) as error:  # it is no reason to keep the pull request open
            log.warning("check run not reported again", pull_request=pull.number, error=str(error))
    if messages.was_closed(pull.body or "") or await publish.attempt_of(pull, reading) is None:
        return False
    head = await reading.branch_head(attempt.head_branch)
    if head is None or not await _is_green(attempt, head, reading):
        return False
    await publish.close(pull, attempt.id, messages.needless(publication_of(attempt, ()), head), writing)
    await store.record_pull_request_state(attempt.repository.id, pull.number, "closed")
    log.info("needless pull request closed", attempt=attempt.id, repository=attempt.repository.full_name, number=pull.number)
    await _update_if_outdated(attempt, reading, writing, store)
    return True


async def _update_if_outdated(attempt: Attempt, reading: Repository, writing: Repository, store: Store) -> bool:
    """Edits first and records then, so a killed worker's edit is found, and repeated without effect."""
    if (why := await _why_outdated(attempt, reading)) is None:
        return False
    await publish.outdated(await _publication(attempt, reading), why, writing)
    await store.record_outdated(attempt.id)
    return True


async def _end_if_moved(attempt: Attempt, reading: Repository, writing: Repository, store: Store) -> bool:
    """End an attempt that waits for a person while its branch has moved on: its repair could not be published any more."""
    if attempt.head_sha is None or attempt.head_branch is None:
        raise ValueError(f"attempt {attempt.id} has no head")
    head = await reading.branch_head(attempt.head_branch)
    if head == attempt.head_sha:
        return False
    why = messages.moved_on(attempt.head_sha, head)
    await publish.outdated(await _publication(attempt, reading), why, writing)
    await store.supersede(attempt.id, why)
    return True


async def _why_outdated(attempt: Attempt, repository: Repository) -> str | None:
    """Why nobody has to act on the attempt's report any more, as a sentence; None if somebody has."""
    if attempt.head_sha is None or attempt.head_branch is None:
        raise ValueError(f"attempt {attempt.id} has no head")
    head = await repository.branch_head(attempt.head_branch)
    if head != attempt.head_sha:
        return messages.moved_on(attempt.head_sha, head)
    return messages.green_now(head) if await _is_green(attempt, head, repository) else None


@dataclass(frozen=True, slots=True)
class _Reports:
    """What CI says about a commit."""

    runs: tuple[WorkflowRun, ...]
    statuses: tuple[CommitStatus, ...]
    checks: tuple[CheckRun, ...]  # of other services; also of Actions, if the runs cannot be read

    @property
    def is_red(self) -> bool:
        """Whether something failed, or still runs."""
        is_red = any(run.is_pending or run.conclusion in FAILING for run in self.runs)
        is_red = is_red or any(status.is_failing for status in self.statuses) or any(check.is_failing for check in self.checks)
        pending = [status.updated_at for status in self.statuses if status.is_pending]
        pending += [check.started_at for check in self.checks if check.is_pending]
        return is_red or any(since is None or datetime.now(UTC) - since < _PATIENCE for since in pending)

    def passed(self) -> set[_Part]:
        runs: set[_Part] = {run.workflow_id for run in self.runs if run.conclusion == "success"}
        statuses = {status.name for status in self.statuses if status.state == "success"}
        return runs | statuses | {_named(check) for check in self.checks if check.conclusion == "success"}

    def failed(self, requests: tuple[RepairRequest, ...]) -> set[_Part]:
        """Also what has passed since, but failed when it was the reason for one of the requests."""
        seen = {request.run_id for request in requests}
        titles = {(request.source, request.title) for request in requests}
        runs: set[_Part] = {run.workflow_id for run in self.runs if run.conclusion in FAILING or run.id in seen}
        statuses = {each.name for each in self.statuses if each.is_failing or ("status", one_line(each.name)) in titles}
        checks = {_named(each) for each in self.checks if each.is_failing or ("check_run", one_line(each.name)) in titles}
        return runs | statuses | checks


def _named(check: CheckRun) -> _Part:
    return check.service, check.name


async def _is_green(attempt: Attempt, head: str, repository: Repository) -> bool:
    """Whether all CI passed at the branch's newest commit, and all that failed at the attempt's is a part of it.

    Not if it is unknown what failed there.
    """
    newest = await _reports(head, repository)
    earlier = newest if head == attempt.head_sha else await _reports(attempt.head_sha or "", repository)
    ours = {request.run_id for request in attempt.requests}  # a command's attempt is for other events' runs too
    workflows = {run.workflow_id for run in earlier.runs if run.tests_commit or run.id in ours}
    earlier, newest = (
        replace(each, runs=tuple(run for run in each.runs if run.tests_commit or run.workflow_id in workflows))
        for each in (earlier, newest)
    )
    failed = earlier.failed(attempt.requests)
    return bool(failed) and failed <= newest.passed() and not newest.is_red


async def _reports(sha: str, repository: Repository) -> _Reports:
    runs, statuses = await repository.runs(sha), await repository.statuses(sha) or ()
    return _Reports(runs or (), statuses, await repository.other_checks(sha, with_actions=runs is None))


async def _publication(attempt: Attempt, repository: Repository) -> Publication:
    """With the pull request that may have our comment. A command knows its own."""
    publication = publication_of(attempt, ())
    if attempt.by_command or publication.head_branch == attempt.repository.default_branch:
        return publication
    pull = await repository.find_pull(publication.head_branch)
    return publication if pull is None else replace(publication, pull_number=pull.number)


async def tidy_for_ever(github: GitHub, store: Store, worker: str) -> None:
    """Look every ten minutes, one worker for all."""
    look, known = looks.Look(store, _LOOK, worker, _LASTING), Known()
    while True:
        await asyncio.sleep(uniform(*_PAUSE))  # noqa: S311 - no secret
        try:
            async with look.turn() as is_due:
                if is_due:
                    await close_needless(github, store, known)
                    await update_outdated(github, store, known)
                else:
                    known.clear()
        except (GitHubError, SQLAlchemyError, OSError) as error:
            log.warning("pull requests and reports not looked at", error=str(error))
