"""A worker's leases: on a claimed attempt, and on reporting an ended attempt's outcome. One worker at a time holds a lease.

    LeaseLost                another worker may have it: this one must not write (`heartbeat.py`)
    AttemptCancelled         a person or a newer commit ended it          outcome, reason

Every write waits for an unavailable database while the lease lasts. This module knows no queue and no GitHub.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Literal, TypeVar

from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from agent.contract.budget import Usage
from agent.contract.events import AnyEvent, Asked, Degraded, ModelCalled
from agent.contract.outcome import Outcome
from agent.contract.question import Waiting
from app.clock import Clock, elapsed
from app.redaction import redact
from app.store.database.database import Database
from app.store.database.retries import retried
from app.store.events import as_json, encode, is_kept
from app.store.leases import changes, quotas
from app.store.leases.claims import Claimed, HeadBusy, NotClaimed, Postponed, Terms, claim, take
from app.store.leases.heartbeat import LeaseLost, RowLease, held
from app.store.leases.quotas import Allowance, Quotas
from app.store.models import AttemptRow, PullRequestRow, RequestRow
from app.store.queries import read_attempt
from app.store.text import storable
from app.store.values import Attempt, PullRequestRecord, request_row
from webhooks.intake import RepairRequest

T = TypeVar("T")
Service = Literal["check_run", "status"]  # how other services than GitHub Actions report
Runs = Mapping[tuple[int, int], tuple[str, int | None]]
"""Title and workflow of runs, by their id and the number of their attempt."""
DIFF_SHOWN = 20_000  # characters of a diff in the timeline


class AttemptCancelled(Exception):
    def __init__(self, outcome: Outcome, reason: str) -> None:
        super().__init__(reason)
        self.outcome = outcome
        self.reason = reason


class Lease(RowLease):
    """One worker's lease on one attempt; opened by `open_lease`. Every method raises `LeaseLost` once it is lost."""

    status = "running"
    _looked_at: frozenset[tuple[int | None, int | None, str, str]] = frozenset()  # requests, at the last `gathered`

    async def record(self, event: AnyEvent) -> None:
        """Add an event to the timeline and the figures. `Ended` is ignored: `end` writes it."""
        if not is_kept(event):
            return
        known: int | None = None  # number of events before this one, once it may have been added

        async def add() -> None:
            nonlocal known
            async with self._fenced() as (session, row):
                if known is not None and await changes.has_event(session, row, encode(event), after=known):
                    return
                known = row.event_count
                if isinstance(event, ModelCalled):  # at once: what a lost try spent counts too
                    row.tokens_in, row.tokens_out = row.tokens_in + event.tokens_in, row.tokens_out + event.tokens_out
                    row.calls, row.cost = row.calls + 1, (row.cost or 0.0) + (event.cost or 0.0)
                await changes.add_event(session, row, event, self._clock.now())

        await self._patiently(add)

    async def set_head(self, sha: str, branch: str) -> Attempt:
        """Set the branch, and of a command's attempt the commit and its number.

        Raises `HeadBusy`, which returns the attempt to the queue.
        """
        return await self._patiently(lambda: self._set_head(sha, branch))

    async def gathered(self, runs: Runs, others: Collection[tuple[Service, str]] = ()) -> bool:
        """Record the failing runs that the attempt has seen, and the kinds and names of other services' failures.

        From then on, another failure starts a further attempt. False if one has joined this attempt since the last look; then
        nothing is recorded. Without any failure, quotas do not count the attempt unless `reserve` follows.
        """
        return await self._patiently(lambda: self._gathered(runs, others))

    async def reserve(self, narrowed: Callable[[Quotas], Quotas]) -> Allowance | str:
        """What the attempt may spend within the repository's own, narrower quotas; a sentence if nothing is left of one.

        Then the attempt does not count any more.
        """
        return await self._patiently(lambda: self._reserve(narrowed(self._terms.quotas)))

    async def spend(self, usage: Usage) -> None:
        """Record the attempt's total usage so far, which may not include that of lost tries."""
        await self._patiently(lambda: self._spend(usage))

    async def record_pull_request(self, pull: PullRequestRecord, confidence: float | None = None) -> None:
        """Record the head's only pull request and the repair's confidence; may be repeated. The head must be set."""
        await self._patiently(lambda: self._record_pull_request(pull, confidence))

    async def end(self, outcome: Outcome, reason: str, next_step: str = "", *, reported: bool = False) -> None:
        """End the attempt and the lease. `reason`: one sentence; `next_step`: for a person; `reported`: on GitHub already."""

        async def end(session: AsyncSession, row: AttemptRow) -> None:
            await changes.end(session, row, changes.ended(outcome, reason, next_step), self._clock.now(), reported=reported)

        def is_done(row: AttemptRow) -> bool:
            return row.status == "ended" and (row.outcome, row.reason) == (outcome, storable(reason))

        await self._leave(end, is_done)

    async def wait(self, waiting: Waiting) -> None:
        """Let the attempt wait until a person replies (`app.store.leases.changes`); ends the lease and resets the tries.

        Raises `AttemptCancelled` if a cancellation was requested since the last heartbeat, which was the final one.
        """

        async def sleep(session: AsyncSession, row: AttemptRow) -> None:
            if (cancelled := _cancelled(row)) is not None:
                raise cancelled
            question = waiting.question
            shown = Asked(text=question.text, about=question.about, question=question.text, diff=question.diff[:DIFF_SHOWN])
            await changes.add_event(session, row, shown, self._clock.now())
            row.status, row.tries = "waiting", 0
            row.question, row.asking = as_json(question), waiting.asking
            row.reply = row.due_at = row.lease_owner = row.lease_expires_at = row.running_sha = None

        await self._leave(sleep, lambda row: (row.status, row.asking) == ("waiting", waiting.asking))

    async def _leave(
        self, change: Callable[[AsyncSession, AttemptRow], Awaitable[None]], is_done: Callable[[AttemptRow], bool]
    ) -> None:
        """The last write under the lease. If the reply to its commit was lost, `is_done` recognises that it took effect."""
        tried = False

        async def write() -> None:
            nonlocal tried
            try:
                async with self._fenced() as (session, row):
                    tried = True
                    await change(session, row)
            except LeaseLost:
                if not (tried and await self._is(is_done)):
                    raise

        self._ending = True
        try:
            await self._patiently(write)
            self.over = True
        finally:
            self._ending = False

    async def _is(self, done: Callable[[AttemptRow], bool]) -> bool:
        async with self._database.read() as session:
            row = await session.get_one(AttemptRow, self.attempt.id)
            return row.lease_token == self._token and done(row)

    async def _patiently(self, work: Callable[[], Awaitable[T]]) -> T:
        return await retried(work, self._terms.silence)

    async def _set_head(self, sha: str, branch: str) -> Attempt:
        while self.attempt.head_sha != sha:
            with contextlib.suppress(IntegrityError):  # another attempt took that number: try the next
                await self._number(sha, branch)
        try:
            async with self._fenced() as (_, row):
                row.running_sha, row.head_branch = sha, branch
        except IntegrityError as error:
            raise HeadBusy from error
        self.attempt = replace(self.attempt, head_branch=branch)
        return self.attempt

    async def _gathered(self, runs: Runs, others: Collection[tuple[Service, str]]) -> bool:
        at_claim = {request.run_id for request in self.attempt.requests if request.run_id is not None}
        claimed = {(request.source, request.title) for request in self.attempt.requests}
        async with self._fenced() as (session, row):
            requests = await session.scalars(select(RequestRow).where(RequestRow.attempt_id == row.id))
            known = {(each.run_id, each.run_attempt, each.source, each.title) for each in requests}
            known_runs, known_others = {each[:2] for each in known}, {each[2:] for each in known}
            late = {
                each
                for each in known - self._looked_at
                if (each[0] is not None and each[0] not in at_claim and each[:2] not in runs)
                or (each[0] is None and not runs and each[2:] not in claimed and each[2:] not in others)
            }
            if not late:
                now = self._clock.now()
                ref, head = self.attempt.repository, (row.head_sha, row.head_branch)
                new = partial(RepairRequest, installation_id=self.attempt.installation_id, repository=ref)
                for run_id, attempt in sorted(runs.keys() - known_runs):
                    title, workflow_id = runs[run_id, attempt]
                    seen = new("workflow_run", head_sha=head[0], head_branch=head[1], title=title)
                    seen = replace(seen, run_id=run_id, run_attempt=attempt, workflow_id=workflow_id)
                    session.add(RequestRow(**request_row(seen, row.id, now)))
                for source, title in sorted(set(others) - known_others):
                    seen = new(source, head_sha=head[0], head_branch=head[1], title=title)
                    session.add(RequestRow(**request_row(seen, row.id, now)))
                row.gathered_at = now
                if not (runs or others or row.calls):  # what it has spent stays counted
                    row.admitted_at = None
        if late:  # the next look counts them as seen: they may be green by then
            self._looked_at = frozenset(known)
        return not late

    async def _reserve(self, within: Quotas) -> Allowance | str:
        async with self._database.write() as session:
            await quotas.lock(session)
            row = await session.get_one(AttemptRow, self.attempt.id, with_for_update=True)
            if (row.lease_token, row.status) != (self._token, self.status):
                raise LeaseLost(f"attempt {self.attempt.id} is no longer ours")
            left = await quotas.reserve(session, row, within, self._terms.most, self._clock.now())
            if isinstance(left, str):
                row.admitted_at = None
            return left

    async def _spend(self, usage: Usage) -> None:
        async with self._fenced() as (_, row):
            if usage.tokens_in + usage.tokens_out >= row.tokens_in + row.tokens_out:
                row.tokens_in, row.tokens_out, row.calls, row.cost = usage.tokens_in, usage.tokens_out, usage.calls, usage.cost

    async def _record_pull_request(self, pull: PullRequestRecord, confidence: float | None) -> None:
        async with self._fenced() as (session, row):
            if row.head_sha is None:
                raise ValueError("the attempt's head is not known yet")
            known = await session.scalar(
                select(PullRequestRow).where(
                    PullRequestRow.repository_id == row.repository_id, PullRequestRow.head_sha == row.head_sha
                )
            )
            if known is None:
                known = PullRequestRow(repository_id=row.repository_id, head_sha=row.head_sha, created_at=self._clock.now())
                session.add(known)
            if known.number != pull.number:  # webhooks update the state of a known pull request
                known.state = pull.state
            known.number, known.branch, known.url = pull.number, pull.branch, pull.url
            await session.flush()
            row.pull_request_id, row.confidence = known.id, confidence
        self.attempt = replace(self.attempt, pull_request=pull)

    async def _number(self, sha: str, branch: str) -> None:
        async with self._fenced() as (session, row):
            number = row.number if row.head_sha == sha else None  # already set if the reply to our commit was lost
            if number is None:
                number = await changes.next_number(session, row.repository_id, sha)
                row.head_sha, row.head_branch, row.number, row.running_sha = sha, branch, number, None
        requests = tuple(replace(request, head_sha=sha, head_branch=branch) for request in self.attempt.requests)
        self.attempt = replace(self.attempt, head_sha=sha, head_branch=branch, number=number, requests=requests)

    def _stopped(self, row: AttemptRow) -> AttemptCancelled | None:
        return _cancelled(row)

    async def _release(self, error: BaseException | None) -> Attempt | None:
        """Put the attempt back into the queue. If no try is left, end the attempt and return it.

        A try that was only interrupted (drain, busy head) does not count.
        """
        interrupted = isinstance(error, asyncio.CancelledError | NotClaimed)
        now = self._clock.now()
        async with self._fenced() as (session, row):
            if isinstance(error, AttemptCancelled):
                await changes.end(session, row, changes.ended(error.outcome, error.reason), now)
            elif error is not None and not interrupted:
                row.last_error = redact(f"{type(error).__name__}: {error}")[:500]
                failed = Degraded(text=f"Try {row.tries} failed: {row.last_error}", step="attempt", why=row.last_error)
                await changes.add_event(session, row, failed, now)
                # Exponential backoff, starting with the lease's duration: the cause may go away.
                row.due_at = now + timedelta(seconds=self._terms.silence * 2 ** (row.tries - 1))
                if row.tries >= self._terms.tries:
                    await changes.end(session, row, changes.exhausted(row), now)
            elif interrupted:
                row.tries -= 1
            if isinstance(error, asyncio.CancelledError):
                text = "Interrupted: the worker is stopping or lost Redis; another worker continues"
                await changes.add_event(session, row, Degraded(text=text, step="attempt", why="interrupted"), now)
            if isinstance(error, Postponed):
                row.due_at = now + timedelta(seconds=error.seconds)
                why = redact(str(error))
                text = f"Postponed by {error.seconds:.0f} s: {why}"
                await changes.add_event(session, row, Degraded(text=text, step="attempt", why=why), now)
            if row.status == "running":
                row.status = "queued"
                row.lease_owner = row.lease_expires_at = row.running_sha = None
            await session.flush()
            return await read_attempt(session, row.id) if row.status == "ended" else None


@contextlib.asynccontextmanager
async def open_lease(database: Database, clock: Clock, terms: Terms, attempt_id: str, worker: str) -> AsyncIterator[Lease]:
    """Claim the attempt and keep the lease alive for the block. Raises what this module and `claims.py` list at the top.

    A block that returns without `end` or `wait` puts the attempt back into the queue.
    """
    async with held(Lease(database, clock, terms, await claim(database, clock, terms, attempt_id, worker))) as lease:
        yield lease


def _cancelled(row: AttemptRow) -> AttemptCancelled | None:
    return AttemptCancelled(Outcome(row.cancel_outcome), row.cancel_reason or "") if row.cancel_outcome else None


class NotificationLease(RowLease):
    """One worker's lease on reporting one attempt's outcome; opened by `open_notification`."""

    status = "ended"

    def __init__(self, database: Database, clock: Clock, terms: Terms, claimed: Claimed) -> None:
        super().__init__(database, clock, terms, claimed)
        self._retry_in: float | None = None

    def retry_later(self, seconds: float) -> None:
        """The outcome could not be reported now; try again after `seconds`."""
        self._retry_in = seconds

    async def _release(self, error: BaseException | None) -> None:
        async with self._fenced() as (_, row):
            row.lease_owner = row.lease_expires_at = None
            if self._retry_in is not None:
                row.due_at = self._clock.now() + timedelta(seconds=self._retry_in)
            elif error is None:
                row.told = True
            elif not isinstance(error, asyncio.CancelledError):
                row.due_at = self._clock.now() + timedelta(seconds=self._terms.silence)


@contextlib.asynccontextmanager
async def open_notification(
    database: Database, clock: Clock, terms: Terms, attempt_id: str, worker: str
) -> AsyncIterator[NotificationLease]:
    """Claim the report of an attempt's outcome for the block. Raises `NotClaimed`, `LeaseLost`.

    If the block returns, the outcome counts as reported, unless it called `retry_later`; if it raises, any worker tries again.
    """
    claimed = await _claim_notification(database, clock, terms, attempt_id, worker)
    async with held(NotificationLease(database, clock, terms, claimed)) as lease:
        yield lease


async def _claim_notification(database: Database, clock: Clock, terms: Terms, attempt_id: str, worker: str) -> Claimed:
    began = elapsed()
    async with database.write() as session:
        row = await session.get(AttemptRow, attempt_id, with_for_update=True)
        now = clock.now()
        if row is None or row.status != "ended" or row.told:
            raise NotClaimed("there is nothing to report")
        if row.due_at is not None and row.due_at > now:
            raise NotClaimed(f"the report is postponed until {row.due_at:%H:%M:%S} UTC")
        if row.lease_expires_at is not None and row.lease_expires_at > now:
            raise NotClaimed(f"{row.lease_owner} is reporting its outcome")
        take(row, worker, now, terms)
        await session.flush()
        attempt = await read_attempt(session, attempt_id)
        assert attempt is not None
        return Claimed(attempt, row.lease_token, began)
