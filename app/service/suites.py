"""Asks GitHub to make no check suite of ours for every push: where we report nothing, it would stay queued for ever.

https://docs.github.com/rest/checks/suites#update-repository-preferences-for-check-suites
Each repository that became known is asked about once, whether it ever fails or not. The webhook of an installation only records
its repositories; this runs in the workers.
"""

from __future__ import annotations

import asyncio
from random import uniform

import structlog
from sqlalchemy.exc import SQLAlchemyError

from app.github.client import GitHub
from app.github.errors import BadCredentials, GitHubError, RateLimited, Unavailable
from app.github.types import CHECKING
from app.store import looks
from app.store.store import Store

_MOST = 20  # repositories in one look: attempts write too
_LOOK = "suites"
_PAUSE = (50.0, 70.0)  # seconds between two looks
_LASTING = 150.0  # seconds without a look, after which another worker takes it over

log = structlog.get_logger()


async def stop_automatic_suites(github: GitHub, store: Store) -> int:
    """Ask for the repositories that were not asked about yet; returns how many were.

    Raises `SQLAlchemyError`, and `GitHubError` if GitHub could be asked about none of them.
    """
    done, away = 0, set[int]()  # installations whose turn is later
    failure: GitHubError | None = None
    for installation_id, ref in await store.repositories_with_automatic_suites(_MOST):
        if installation_id in away:
            continue
        try:
            await github.repository(installation_id, ref, CHECKING).stop_automatic_suites()
        except (RateLimited, Unavailable, BadCredentials) as error:
            away.add(installation_id)
            failure = failure if isinstance(error, RateLimited) else error
            log.info("automatic check suites are stopped later", repository=ref.full_name, error=str(error))
            continue
        except GitHubError as error:  # it is gone, or the App may not
            log.warning("automatic check suites not stopped", repository=ref.full_name, error=str(error))
        await store.record_suites_stopped(ref.id)
        done += 1
    if failure is not None and not done:
        raise failure
    return done


async def stop_for_ever(github: GitHub, store: Store, worker: str) -> None:
    """Look every minute, one worker for all."""
    look = looks.Look(store, _LOOK, worker, _LASTING)
    while True:
        await asyncio.sleep(uniform(*_PAUSE))  # noqa: S311 - no secret
        try:
            async with look.turn() as is_due:
                if is_due:
                    await stop_automatic_suites(github, store)
        except (GitHubError, SQLAlchemyError, OSError) as error:
            log.warning("automatic check suites not looked at", error=str(error))
