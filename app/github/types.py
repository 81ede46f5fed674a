"""What we read from GitHub and write to it, as small values of our own. Only the fields that are used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Literal

from webhooks.triggers import FAILING

Access = Literal["read", "write"]

READING: Mapping[str, Access] = MappingProxyType(
    {"actions": "read", "checks": "read", "contents": "read", "metadata": "read", "pull_requests": "read"}
)
"""Permissions of the token that gathers."""

PUBLISHING: Mapping[str, Access] = MappingProxyType(
    {"checks": "write", "contents": "write", "issues": "write", "metadata": "read", "pull_requests": "write"}
)
"""Permissions of the token that publishes."""

RERUNNING: Mapping[str, Access] = MappingProxyType({"actions": "write", "metadata": "read"})
"""Permissions of the token that has failed jobs run again."""


@dataclass(frozen=True, slots=True)
class AppFacts:
    """What GitHub says of the App itself. `permissions` and `events` are what its page grants, not each installation."""

    id: int
    name: str
    url: str  # for people
    permissions_page: str  # where its owner changes both
    permissions: Mapping[str, str]
    events: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class InstallationFacts:
    account: str
    url: str  # for people
    permissions: Mapping[str, str]
    suspended: bool


class Permission(StrEnum):
    """What a person may do in a repository."""

    ADMIN = "admin"
    MAINTAIN = "maintain"
    WRITE = "write"
    TRIAGE = "triage"
    READ = "read"
    NONE = "none"

    @property
    def can_write(self) -> bool:
        return self in (Permission.ADMIN, Permission.MAINTAIN, Permission.WRITE)


@dataclass(frozen=True, slots=True)
class WorkflowRun:
    id: int
    name: str
    path: str  # ".github/workflows/ci.yml"
    head_sha: str
    head_branch: str | None
    event: str  # "push", "pull_request", …
    status: str
    conclusion: str | None
    attempt: int
    url: str  # for people


@dataclass(frozen=True, slots=True)
class Step:
    number: int
    name: str
    conclusion: str | None


@dataclass(frozen=True, slots=True)
class Job:
    id: int
    name: str
    conclusion: str | None
    workflow_path: str
    head_sha: str
    steps: tuple[Step, ...]
    url: str
    failed_at: datetime | None = None  # when its first red step, or else the job, began

    @property
    def failed_steps(self) -> tuple[Step, ...]:
        return tuple(step for step in self.steps if step.conclusion in FAILING)


@dataclass(frozen=True, slots=True)
class ForeignCheck:
    """A check run that another App (another CI) made."""

    id: int
    name: str
    app: str  # slug of the App
    conclusion: str | None
    title: str
    summary: str
    url: str


@dataclass(frozen=True, slots=True)
class JobLog:
    """The log of a job: all of it, or its first and its last part with a line between that says what is missing."""

    text: str
    size: int  # bytes that GitHub sent
    truncated: bool


@dataclass(frozen=True, slots=True)
class Commit:
    sha: str
    tree: str
    parents: tuple[str, ...]
    message: str


@dataclass(frozen=True, slots=True)
class PullRequest:
    number: int
    url: str  # for people
    state: Literal["open", "closed"]
    draft: bool
    merged: bool
    title: str
    body: str
    head_sha: str
    head_branch: str
    head_repository: str | None  # full name; None when the fork is gone
    base_branch: str
    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FileWrite:
    """One file of a commit; `text=None` removes it. The mode stays what it is at the parent."""

    path: str
    text: str | None


@dataclass(frozen=True, slots=True)
class NewCommit:
    """One commit on top of `parent`. No author or date is named: only so does GitHub sign it as the App's."""

    parent: str
    tree: str
    message: str


@dataclass(frozen=True, slots=True)
class NewPull:
    title: str
    body: str
    head: str  # branch of this repository
    base: str


@dataclass(frozen=True, slots=True)
class Comment:
    id: int
    url: str
    body: str


Status = Literal["queued", "in_progress", "completed"]
Conclusion = Literal["success", "failure", "neutral", "cancelled", "skipped", "timed_out", "action_required"]


@dataclass(frozen=True, slots=True)
class CheckReport:
    """How our check run on a commit shall look. `external_id` and `name` and `head_sha` find it again."""

    name: str
    head_sha: str
    external_id: str
    status: Status
    title: str
    summary: str
    conclusion: Conclusion | None = None
    text: str = ""
    details_url: str | None = None


@dataclass(frozen=True, slots=True)
class CheckRunRef:
    id: int
    url: str


Reaction = Literal["+1", "-1", "laugh", "confused", "heart", "hooray", "rocket", "eyes"]
