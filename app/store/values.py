"""The values that the store returns: frozen, and independent of any database session."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, cast

import msgspec

from agent.contract.budget import Usage
from agent.contract.outcome import Outcome
from agent.contract.question import Question, Reply
from app.store.models import AttemptRow
from webhooks.intake import RepairRequest, RepositoryRef

Status = Literal["queued", "running", "waiting", "ended"]
Trigger = Literal["automatic", "command", "fork"]
REQUEST_FIELDS = (
    *("source", "head_branch", "run_id", "run_attempt", "workflow_id", "check_run_id", "check_suite_id", "pull_number"),
    *("comment_id", "sender", "title", "flaky"),
)
"""Fields that a `RepairRequest` and a row of `requests` share."""
_SAME_FIELDS = (
    *("id", "installation_id", "head_sha", "head_branch", "number", "reason", "next_step", "tries", "answered_at"),
    *("forked_from", "from_iteration", "model", "confidence", "created_at", "started_at", "ended_at"),
)
"""Fields that an `Attempt` and a row of `attempts` share."""


@dataclass(frozen=True, slots=True)
class Cursor:
    """A position in the list of attempts, newest first."""

    created_at: datetime
    id: str


@dataclass(frozen=True, slots=True)
class AttemptQuery:
    """Which attempts to list; only those older than `before`. None or "" means any.

    `repository` is a part of a full name, in any case.
    """

    repository: str = ""
    status: Status | None = None
    outcome: Outcome | None = None
    trigger: Trigger | None = None
    before: Cursor | None = None

    @property
    def filters(self) -> dict[str, str]:
        """The non-empty filters as query parameters."""
        named = {"repository": self.repository, "state": self.outcome or self.status, "trigger": self.trigger}
        return {name: str(value) for name, value in named.items() if value}


@dataclass(frozen=True, slots=True)
class AttemptVersion:
    """An attempt's version: if two versions are equal, nothing that pages show has changed."""

    events: int
    status: str
    tokens_out: int
    pull_request_id: int | None


@dataclass(frozen=True, slots=True)
class PullRequestRecord:
    """One of our pull requests. `state` is open, closed or merged."""

    number: int
    branch: str
    url: str
    state: str = "open"


@dataclass(frozen=True, slots=True)
class PullRequestResult:
    """The confidence of a pull request's repair, and its state: open, closed or merged."""

    confidence: float
    state: str


@dataclass(frozen=True, slots=True)
class Attempt:
    """A snapshot of one attempt. `head_sha` and `number` of a command are None until a worker resolves them."""

    id: str
    repository: RepositoryRef
    installation_id: int
    by_command: bool
    head_sha: str | None
    head_branch: str | None
    number: int | None
    status: Status
    outcome: Outcome | None
    reason: str | None
    next_step: str | None
    is_reported: bool  # GitHub shows the outcome, or never showed the start
    tries: int
    worker: str | None
    question: Question | None  # for a person, while the attempt waits
    reply: Reply | None  # a person's last reply
    answered_at: datetime | None
    forked_from: str | None  # id of the attempt whose iterations before `from_iteration` this one shares
    from_iteration: int | None
    model: str | None  # chosen by a person for this attempt
    confidence: float | None  # of its repair, 0..1
    requests: tuple[RepairRequest, ...]
    pull_request: PullRequestRecord | None
    usage: Usage
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None

    @property
    def is_asked_for(self) -> bool:
        """Whether a person requested this attempt: that overrides what CI's log shows."""
        return self.forked_from is not None or any(request.by_person for request in self.requests)

    @property
    def trigger(self) -> Trigger:
        return "fork" if self.forked_from else "command" if self.by_command else "automatic"


def attempt_of(row: AttemptRow) -> Attempt:
    """The value of a row with loaded relationships."""
    repository = RepositoryRef(
        row.repository.id, row.repository.full_name, row.repository.default_branch, row.repository.private
    )
    requests = tuple(
        RepairRequest(
            installation_id=row.installation_id,
            repository=repository,
            head_sha=row.head_sha,
            **{name: getattr(request, name) for name in REQUEST_FIELDS},
        )
        for request in row.requests
    )
    pull = row.pull_request
    return Attempt(
        **{name: getattr(row, name) for name in _SAME_FIELDS},
        repository=repository,
        by_command=row.trigger == "command",
        status=cast(Status, row.status),
        outcome=Outcome(row.outcome) if row.outcome else None,
        is_reported=row.told,
        worker=row.lease_owner,
        question=msgspec.json.decode(row.question, type=Question) if row.question and row.status == "waiting" else None,
        reply=msgspec.json.decode(row.reply, type=Reply) if row.reply else None,
        requests=requests,
        pull_request=PullRequestRecord(pull.number, pull.branch, pull.url, pull.state) if pull else None,
        usage=Usage(row.tokens_in, row.tokens_out, row.calls, row.cost),
    )


def request_row(request: RepairRequest, attempt_id: str, now: datetime) -> dict[str, Any]:
    """The row of a trigger of an attempt."""
    return {"attempt_id": attempt_id, "created_at": now, **{name: getattr(request, name) for name in REQUEST_FIELDS}}
