"""Values read from GitHub and written to it; only the fields that are used."""

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
"""Permissions of the token that reruns failed jobs."""


@dataclass(frozen=True, slots=True)
class AppFacts:
    """GitHub's view of the App. `permissions` and `events` are the App's settings, not those of an installation."""

    id: int
    name: str
    url: str  # for people
    permissions_page: str  # where the owner edits both
    permissions: Mapping[str, str]
    events: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class InstallationFacts:
    account: str
    url: str  # for people
    permissions: Mapping[str, str]
    suspended: bool


class Permission(StrEnum):
    """A person's permission in a repository."""

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
    failed_at: datetime | None = None  # when its first failed step, or else the job, started

    @property
    def failed_steps(self) -> tuple[Step, ...]:
        return tuple(step for step in self.steps if step.conclusion in FAILING)


@dataclass(frozen=True, slots=True)
class ForeignCheck:
    """A check run of another App (another CI service)."""

    id: int
    name: str
    app: str  # slug of the App
    conclusion: str | None
    title: str
    summary: str
    url: str


@dataclass(frozen=True, slots=True)
class JobLog:
    """The log of a job; a long one is cut in the middle, with a line that says how much is missing."""

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
    """One file of a commit; `text=None` removes it. Its mode stays as in the parent."""

    path: str
    text: str | None


@dataclass(frozen=True, slots=True)
class NewCommit:
    """One commit on top of `parent`. Without author and date, so that GitHub signs it as the App."""

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
    """The wanted state of our check run on a commit. `external_id`, `name` and `head_sha` identify it."""

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
