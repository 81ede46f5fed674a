"""Requests and deliveries as the webhooks would make them."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from agent.contract.outcome import Outcome
from app.github.types import WorkflowRun
from app.store import commands
from app.store.deliveries import record
from app.store.leases import changes
from app.store.models import AttemptRow
from app.store.store import Store
from webhooks.intake import Decision, Delivery, RepairRequest, RepositoryRef
from webhooks.triggers import FAILING

REPOSITORY = RepositoryRef(7, "octo/calculator", "main")
SHA = "a" * 40
RUN = RepairRequest("workflow_run", 11, REPOSITORY, SHA, "main", run_id=1, run_attempt=1, title="CI", is_news=True)
COMMAND = RepairRequest(
    "comment", 11, REPOSITORY, None, None, pull_number=3, comment_id=5, sender="alice", title="/heal by alice"
)


class MovableClock:
    def __init__(self, time: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self.time = time

    def now(self) -> datetime:
        return self.time

    def advance(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)


def delivery(guid: str | None = None) -> Delivery:
    return Delivery(guid or str(uuid.uuid4()), "workflow_run", "completed", "0" * 64)


async def taken(store: Store, decision: Decision) -> str:
    """Commit the decision, as a new delivery; the attempt's id ("" without one). A command's author is permitted."""
    async with store.database.write() as session:
        known = (await record(session, delivery(), decision, store.clock.now())).attempt_id or ""
    if known or not (isinstance(decision, RepairRequest) and decision.by_command):
        return known
    admitted = await commands.admit(store, await commands.pending(store, decision.repository.id, decision.pull_number or 0))
    return (admitted and admitted.attempt_id) or ""


def failing(runs: tuple[WorkflowRun, ...] | None) -> tuple[WorkflowRun, ...]:
    """Those of a commit's runs, which can be read, that failed."""
    assert runs is not None
    return tuple(run for run in runs if run.conclusion in FAILING)


def run_of(sha: str, **changes: object) -> RepairRequest:
    return replace(RUN, head_sha=sha, **changes)


async def cancel(store: Store, attempt_id: str, outcome: Outcome, reason: str) -> None:
    """As a webhook does: end the attempt, or ask its worker to."""
    async with store.database.write() as session:
        row = await session.get_one(AttemptRow, attempt_id, with_for_update=True)
        await changes.cancel(session, row, outcome, reason, store.clock.now())
