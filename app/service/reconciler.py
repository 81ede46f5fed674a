"""Takes up failing workflow runs of which no webhook came, as if it had come: the same decision, the same intake.

`missed.py` asks for deliveries that GitHub could not deliver. There are none while the App's webhook is off or lacks the event
`workflow_run`, and none older than three days. So the runs themselves are read.

Nothing is doubled: what stands in for the delivery is named after the run, and each name is handled once; a webhook that comes
later joins the attempt, which knows the run. A repository's failures count from when it became known here: those from before
Selfheal was installed are left alone.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from random import uniform

import structlog
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from app.github.client import GitHub
from app.github.errors import BadCredentials, Forbidden, GitHubError, RateLimited
from app.github.repository import Repository
from app.github.types import RecentRun
from app.store import looks
from app.store.deliveries import record_repositories
from app.store.store import Store
from webhooks import events
from webhooks.intake import Delivery, Ignored, Intake, NotDurable, RepairRequest
from webhooks.triggers import BRANCH_PREFIX, FAILING, on_workflow_run, unless_own

_WINDOW = timedelta(days=1)  # by a run's creation: a run can last for hours
_SETTLED = timedelta(minutes=2)  # the webhook of a younger failure may still be on its way
_MOST_REPOSITORIES = 100  # of one installation; each costs two requests
_LOOK = "runs"
_LASTING = 5400.0  # seconds without a look, after which another worker takes it over
_FIRST, _USUALLY = (20.0, 30.0), (3300.0, 3900.0)  # seconds before a look, the first one after missed deliveries were asked for

log = structlog.get_logger()


async def take_up_missed(github: GitHub, store: Store, intake: Intake, branch_prefix: str = BRANCH_PREFIX) -> int:
    """Take up what has no attempt yet; returns how many runs. Raises `GitHubError`, `SQLAlchemyError`, `NotDurable`."""
    taken = 0
    for installation in await github.installations():
        if installation.suspended_at is not None:
            continue
        try:
            taken += await _look_at(installation.id, github, store, intake, branch_prefix)
        except GitHubError as error:  # one account says nothing about the others
            log.warning("failing runs not looked for", account=installation.account, error=str(error))
    return taken


async def _look_at(installation_id: int, github: GitHub, store: Store, intake: Intake, branch_prefix: str) -> int:
    """The repositories of one installation."""
    decide = partial(_decide, installation_id=installation_id, branch_prefix=branch_prefix)
    repositories, now, taken = await github.repositories(installation_id), store.clock.now(), 0
    known_since = await _known_since(repositories, installation_id, store)
    if left_out := len(repositories[_MOST_REPOSITORIES:]):
        log.warning("repositories not looked at, the longest without a push", count=left_out, installation=installation_id)
    for repository in repositories[:_MOST_REPOSITORIES]:
        since = max(known_since.get(repository.ref.id, now), now - _WINDOW)
        if since >= now:  # it is new
            continue
        try:
            for request in await _missed(repository, decide, since, now - _SETTLED, store):
                receipt = await intake.take(_stand_in(request), request)
                taken += not receipt.duplicate
        except (RateLimited, BadCredentials):
            raise
        except GitHubError as error:
            if isinstance(error, Forbidden) and error.is_of_token:  # so it is for all repositories of the account
                raise
            log.warning("failing runs not looked for", repository=repository.ref.full_name, error=str(error))
    return taken


async def _known_since(repositories: Sequence[Repository], installation_id: int, store: Store) -> dict[int, datetime]:
    """Since when each repository is known here; new ones are from now on."""
    named = {each.ref.id: (installation_id, each.ref) for each in repositories}
    with contextlib.suppress(IntegrityError):  # another worker records them
        await store.database.write_in_one(partial(record_repositories, named=named, now=store.clock.now()))
    return await store.known_since(named)


async def _missed(
    repository: Repository,
    decide: Callable[[RecentRun, Repository], RepairRequest | Ignored],
    since: datetime,
    until: datetime,
    store: Store,
) -> list[RepairRequest]:
    """The requests that no attempt knows, of the newest commits of branches; the oldest first, as webhooks come."""
    runs = [run for run in await _failed_since(repository, since) if run.updated_at < until]
    decisions = [decide(run, repository) for run in reversed(runs)]
    requests = [decision for decision in decisions if isinstance(decision, RepairRequest)]
    known = await store.known_runs([run.id for run in runs])
    missed = [request for request in requests if (request.run_id, request.run_attempt) not in known]
    heads = {branch: await repository.branch_head(branch or "") for branch in {request.head_branch for request in missed}}
    return [request for request in missed if heads[request.head_branch] == request.head_sha]


async def _failed_since(repository: Repository, since: datetime) -> list[RecentRun]:
    found: list[RecentRun] = []
    for conclusion in sorted(FAILING):
        page = await repository.recent_runs(conclusion, since)
        found += page.workflow_runs
        if left_out := page.total_count - len(page.workflow_runs):
            log.warning("failing runs not looked at, the oldest", count=left_out, repository=repository.ref.full_name)
    return found


def _decide(run: RecentRun, repository: Repository, installation_id: int, branch_prefix: str) -> RepairRequest | Ignored:
    """What a webhook of the run's end would be decided to be."""
    ref = repository.ref
    of = events.Repository(ref.id, ref.full_name, ref.default_branch, ref.private)
    installation = events.Installation(installation_id)
    event = events.WorkflowRun(action="completed", installation=installation, repository=of, workflow_run=run)
    return unless_own(on_workflow_run(event), branch_prefix)


def _stand_in(request: RepairRequest) -> Delivery:
    """Named after the run; no webhook has such a GUID, as those have no colons."""
    return Delivery(f"run:{request.run_id}:{request.run_attempt}", "workflow_run", "completed", payload_sha256="")


async def take_up_for_ever(github: GitHub, store: Store, intake: Intake, worker: str, branch_prefix: str) -> None:
    """Look at the start, and every hour, one worker for all."""
    wait, look = _FIRST, looks.Look(store, _LOOK, worker, _LASTING)
    while True:
        await asyncio.sleep(uniform(*wait))  # noqa: S311 - no secret
        wait = _USUALLY
        try:
            async with look.turn() as is_due:
                if is_due and (count := await take_up_missed(github, store, intake, branch_prefix)):
                    log.info("took up failing runs without a webhook", count=count)
        except (GitHubError, NotDurable, SQLAlchemyError, OSError) as error:
            log.warning("failing runs not looked for", error=str(error))
