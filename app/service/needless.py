"""Closes our pull requests that nobody needs any more: CI of the branch that they would repair is green without them."""

from __future__ import annotations

import asyncio
from random import uniform

import structlog
from sqlalchemy.exc import SQLAlchemyError

from app.attempt.progress import publication_of
from app.github.client import GitHub
from app.github.errors import GitHubError
from app.github.repository import Repository
from app.github.types import PUBLISHING, READING, PullRequest
from app.publish import messages
from app.store.store import Store
from app.store.values import Attempt
from webhooks.triggers import FAILING

_PAUSE = (540.0, 660.0)  # seconds between two looks; workers that start together spread out

log = structlog.get_logger()


async def close_needless(github: GitHub, store: Store) -> int:
    """Close the open pull requests of ours that are needless; returns how many. Raises `SQLAlchemyError`."""
    closed = 0
    for attempt in await store.attempts_with_open_pull_request():
        reading, writing = (
            github.repository(attempt.installation_id, attempt.repository, permissions) for permissions in (READING, PUBLISHING)
        )
        try:
            closed += await _close_if_needless(attempt, reading, writing, store)
        except GitHubError as error:  # one repository says nothing about the others
            log.warning("open pull request not looked at", attempt=attempt.id, error=str(error))
    return closed


async def _close_if_needless(attempt: Attempt, reading: Repository, writing: Repository, store: Store) -> bool:
    known = attempt.pull_request
    if known is None or attempt.head_sha is None or attempt.head_branch is None:
        raise ValueError(f"attempt {attempt.id} has no pull request")
    pull = await reading.pull(known.number)
    if pull.state == "closed":  # its delivery was lost
        await store.record_pull_request_state(attempt.repository.id, pull.number, "merged" if pull.merged_at else "closed")
        return False
    if not await _is_untouched(pull, reading):
        return False
    green = await _green_head(attempt.head_sha, attempt.head_branch, reading)
    if green is None:
        return False
    text = messages.needless_body(publication_of(attempt, ()), pull.body or "", green)
    await writing.close_pull(pull.number, text)
    log.info("needless pull request closed", attempt=attempt.id, repository=attempt.repository.full_name, number=pull.number)
    return True


async def _is_untouched(pull: PullRequest, repository: Repository) -> bool:
    """Whether its branch ends with our commit: what people have pushed there is theirs."""
    return messages.is_ours((await repository.commit(pull.head.sha)).message)


async def _green_head(red: str, branch: str, repository: Repository) -> str | None:
    """The branch's newest commit, if all its workflows and statuses passed, and all that failed at `red` are among them."""
    head = await repository.branch_head(branch)
    if head is None:
        return None
    runs, statuses = await repository.runs(head), await repository.statuses(head) or ()
    failed: set[int | str] = set()
    if head != red:
        failed |= {run.workflow_id for run in await repository.failing_runs(red)}
        failed |= {status.name for status in await repository.statuses(red) or () if status.is_failing}
    passed: set[int | str] = {run.workflow_id for run in runs if run.conclusion == "success"}
    passed |= {status.name for status in statuses if status.state == "success"}
    is_red = any(run.is_pending or run.conclusion in FAILING for run in runs)
    is_red = is_red or any(status.state != "success" for status in statuses) or bool(await repository.failing_checks(head))
    return None if is_red or not passed or failed - passed else head


async def close_needless_for_ever(github: GitHub, store: Store) -> None:
    """Look every ten minutes."""
    while True:
        await asyncio.sleep(uniform(*_PAUSE))  # noqa: S311 - no secret
        try:
            await close_needless(github, store)
        except (SQLAlchemyError, OSError) as error:
            log.warning("open pull requests not looked at", error=str(error))
