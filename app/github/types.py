"""Values read from GitHub and written to it; only the fields that are used, under GitHub's names or clearer ones."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Literal, TypeVar

import msgspec

from app.github.errors import Unavailable
from webhooks.events import Account, GitHubApp, Minimal, Repository, Run, Side
from webhooks.triggers import FAILING, FAILING_STATES, TESTING

Access = Literal["read", "write"]
MOST_COMPARED = 300  # files that GitHub lists of one comparison
T = TypeVar("T")

READING: Mapping[str, Access] = MappingProxyType(
    {"actions": "read", "checks": "read", "contents": "read", "metadata": "read", "pull_requests": "read", "statuses": "read"}
)
"""Permissions of the token for reading."""

OPTIONAL: Mapping[str, Access] = MappingProxyType({"actions": "read", "statuses": "read"})
"""Permissions without which a token is asked for if an installation does not grant them: the other kinds of CI still work."""

PUBLISHING: Mapping[str, Access] = MappingProxyType(
    {"checks": "write", "contents": "write", "issues": "write", "metadata": "read", "pull_requests": "write"}
)
"""Permissions of the token for publishing."""

LISTING: Mapping[str, Access] = MappingProxyType({"actions": "read", "contents": "read", "metadata": "read"})
"""Permissions of the token for the failing runs of all repositories of an installation."""

PUBLISHING_WORKFLOWS: Mapping[str, Access] = MappingProxyType({**PUBLISHING, "workflows": "write"})
"""Permissions of the token for publishing a branch with other workflow files than the default branch; few Apps have them."""

CHECKING: Mapping[str, Access] = MappingProxyType({"checks": "write", "metadata": "read"})
"""Permissions of the token for the preferences about check suites, and for a check run where others are missing."""

COMMENTING: Mapping[str, Access] = MappingProxyType({"issues": "write", "metadata": "read", "pull_requests": "write"})
"""Permissions of the token for a comment where others are missing."""

KNOWING: Mapping[str, Access] = MappingProxyType({"metadata": "read"})
"""Permissions of the token for what every App may read, as a person's permission."""

RERUNNING: Mapping[str, Access] = MappingProxyType({"actions": "write", "metadata": "read"})
"""Permissions of the token for rerunning failed jobs."""


_LEVELS = ("none", "read", "write", "admin")


def has_permission(granted: Mapping[str, str], name: str, access: str) -> bool:
    """Whether the permissions that GitHub lists grant at least this access."""
    had = granted.get(name, "none")
    return had in _LEVELS and _LEVELS.index(had) >= _LEVELS.index(access)


def parsed(kind: type[T], answer: Any) -> T:
    """GitHub's JSON as `kind`. Raises `Unavailable` if a field is missing or has another type."""
    try:
        return msgspec.convert(answer, kind)
    except msgspec.ValidationError as error:
        raise Unavailable(f"GitHub's response lacks a needed field ({kind.__name__}: {error})") from error


class Owner(msgspec.Struct, frozen=True):
    """An account; enterprises have a slug instead of a login."""

    login: str = ""
    slug: str = ""
    type: str = ""


class AppFacts(msgspec.Struct, frozen=True, rename={"url": "html_url"}):
    """GitHub's view of the App. `permissions` and `events` are the App's settings, not those of an installation."""

    name: str
    slug: str
    url: str  # for people
    owner: Owner
    permissions: dict[str, str]
    events: tuple[str, ...]

    @property
    def permissions_page(self) -> str:
        """URL where the owner edits permissions and events."""
        settings = f"organizations/{self.owner.login}/settings" if self.owner.type == "Organization" else "settings"
        site = self.url.partition("/apps/")[0].partition("/github-apps/")[0]
        return f"{site}/{settings}/apps/{self.slug}/permissions"


class InstallationFacts(msgspec.Struct, frozen=True, rename={"url": "html_url", "owner": "account"}):
    id: int
    url: str  # for people
    permissions: dict[str, str]
    suspended_at: datetime | None
    owner: Owner | None = None

    @property
    def account(self) -> str:
        return (self.owner and (self.owner.login or self.owner.slug)) or "unknown"


class InstalledRepository(Repository, frozen=True):
    pushed_at: str | None = None  # ISO 8601, in UTC


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


class Collaborator(msgspec.Struct, frozen=True):
    permission: Permission
    role_name: str | None = None

    @property
    def effective(self) -> Permission:
        """A custom role counts as its base permission."""
        return Permission(self.role_name) if self.role_name in tuple(Permission) else self.permission


class PullLink(msgspec.Struct, frozen=True):
    """A pull request of this repository, as a run names it."""

    head: Side
    base: Side


class WorkflowRun(
    msgspec.Struct,
    frozen=True,
    rename={"title": "name", "source": "path", "number": "run_number", "attempt": "run_attempt", "url": "html_url"},
):
    id: int
    source: str  # of a reusable workflow with its ref
    url: str  # for people
    title: str | None = None
    event: str = ""  # "push", "pull_request", …
    status: str | None = None
    conclusion: str | None = None
    attempt: int = 1
    number: int = 0  # among the runs of its workflow, from 1
    workflow_id: int = 0
    head_sha: str = ""
    head_branch: str | None = None
    head_repository: Minimal | None = None  # None: that fork was deleted
    pull_requests: tuple[PullLink, ...] | None = None  # open ones with this head; none of forks

    @property
    def is_pending(self) -> bool:
        """Whether it ends without a person: one that waits for an approval does not."""
        return self.status in ("queued", "requested", "pending", "in_progress")

    @property
    def tests_commit(self) -> bool:
        """Whether its event means that it tests the commit that it names."""
        return self.event in TESTING

    @property
    def workflow_of_pull_request(self) -> int | None:
        """The workflow, if a pull request's events start it, several times at one commit."""
        return self.workflow_id if self.event == "pull_request" else None

    @property
    def path(self) -> str:
        """ ".github/workflows/ci.yml"."""
        return self.source.partition("@")[0]

    @property
    def name(self) -> str:
        return self.title or self.source


class WorkflowRuns(msgspec.Struct, frozen=True):
    workflow_runs: tuple[WorkflowRun, ...]


class RecentRun(Run, frozen=True, kw_only=True):
    """A workflow run with the fields that a webhook's payload has of it."""

    updated_at: datetime


class RecentRuns(msgspec.Struct, frozen=True):
    total_count: int
    workflow_runs: tuple[RecentRun, ...]


class HookDelivery(msgspec.Struct, frozen=True):
    """One try to deliver a webhook to the App."""

    id: int
    guid: str  # of all tries
    delivered_at: datetime
    status_code: int = 0  # of our response; 0: there was none


class Step(msgspec.Struct, frozen=True):
    name: str
    conclusion: str | None = None
    started_at: datetime | None = None


class Job(msgspec.Struct, frozen=True):
    id: int
    name: str
    conclusion: str | None = None
    steps: tuple[Step, ...] = ()
    started_at: datetime | None = None
    completed_at: datetime | None = None

    @property
    def failed_step(self) -> Step | None:
        return next((step for step in self.steps if step.conclusion in FAILING), None)


class CheckOutput(msgspec.Struct, frozen=True):
    title: str | None = None
    summary: str | None = None


class CheckRun(msgspec.Struct, frozen=True):
    """A check run, of any App."""

    id: int
    name: str
    status: str | None = None
    conclusion: str | None = None
    external_id: str | None = None
    app: GitHubApp | None = None
    output: CheckOutput | None = None
    html_url: str | None = None
    details_url: str | None = None
    started_at: datetime | None = None

    @property
    def is_pending(self) -> bool:
        return self.status != "completed"

    @property
    def is_failing(self) -> bool:
        return self.conclusion in FAILING

    @property
    def service(self) -> str:
        """The slug of its App."""
        return (self.app and self.app.slug) or ""

    @property
    def text(self) -> str:
        """Its name, App, title and summary."""
        app, output = self.app or GitHubApp(), self.output or CheckOutput()
        return f"{self.name} ({app.slug or ''}): {output.title or ''}\n{output.summary or ''}"

    @property
    def url(self) -> str:
        """For people; "" if there is none."""
        return self.html_url or self.details_url or ""


class CheckSuite(msgspec.Struct, frozen=True):
    """The check runs of one App at one commit."""

    id: int
    status: str | None = None


class CommitStatus(msgspec.Struct, frozen=True, rename={"name": "context", "target": "target_url"}):
    """The newest report under one name by a CI service that sets no check runs."""

    name: str
    state: str  # "error", "failure", "pending", "success"
    description: str | None = None
    target: str | None = None  # URL for people
    updated_at: datetime | None = None
    service = ""  # no App is named

    @property
    def is_pending(self) -> bool:
        return self.state == "pending"

    @property
    def is_failing(self) -> bool:
        return self.state in FAILING_STATES

    @property
    def text(self) -> str:
        """Its name and description."""
        return f"{self.name}: {self.description or ''}"

    @property
    def url(self) -> str:
        return self.target or ""


class Link(msgspec.Struct, frozen=True):
    """Where a download is; `header`: what has to be sent for it, by the server's own word."""

    href: str
    header: dict[str, str] = {}


class LfsActions(msgspec.Struct, frozen=True):
    download: Link | None = None


class LfsObject(msgspec.Struct, frozen=True):
    oid: str
    actions: LfsActions = LfsActions()  # none, if the object does not exist or was removed


class LfsAnswer(msgspec.Struct, frozen=True):
    """https://github.com/git-lfs/git-lfs/blob/main/docs/api/batch.md#successful-responses"""

    objects: tuple[LfsObject, ...]


class Object(msgspec.Struct, frozen=True):
    """Something in git."""

    sha: str


class Encoded(msgspec.Struct, frozen=True):
    """A file's or blob's content in base64."""

    content: str


class Reference(msgspec.Struct, frozen=True):
    object: Object


class TreeEntry(Object, frozen=True):
    path: str
    type: str
    mode: str
    size: int | None = None  # bytes of a file


class Tree(msgspec.Struct, frozen=True):
    tree: tuple[TreeEntry, ...]
    truncated: bool = False


class Signature(msgspec.Struct, frozen=True):
    date: datetime


class Commit(Object, frozen=True):
    tree: Object
    parents: tuple[Object, ...]
    message: str
    committer: Signature


class ComparedFile(msgspec.Struct, frozen=True, rename={"path": "filename", "old_path": "previous_filename"}):
    """One file that differs between two commits."""

    path: str
    status: str  # "added", "removed", "modified", "renamed", "copied", "changed", "unchanged"
    changes: int  # added and removed lines; 0 for a binary file
    patch: str | None = None  # hunks only; None for a binary or very large file, and if no line changed
    old_path: str | None = None  # of a renamed or copied file


class Message(msgspec.Struct, frozen=True):
    message: str = ""


class ComparedCommit(msgspec.Struct, frozen=True):
    commit: Message = Message()


class Comparison(msgspec.Struct, frozen=True, rename={"merge_base": "merge_base_commit"}):
    """What changed from the merge base of two commits to the second one."""

    merge_base: Object
    files: tuple[ComparedFile, ...] = ()
    commits: tuple[ComparedCommit, ...] = ()  # the newest 250

    @property
    def is_whole(self) -> bool:
        return len(self.files) < MOST_COMPARED


class Tag(msgspec.Struct, frozen=True):
    name: str


class Label(msgspec.Struct, frozen=True):
    name: str


class PullRequest(msgspec.Struct, frozen=True, rename={"url": "html_url"}):
    number: int
    url: str  # for people
    state: Literal["open", "closed"]
    title: str
    head: Side
    base: Side
    merged_at: str | None = None
    body: str | None = None
    labels: tuple[Label, ...] = ()
    user: Account | None = None  # None: the account was deleted
    requested_reviewers: tuple[Account, ...] = ()

    @property
    def author(self) -> str:
        """The login of the person who opened it; "" if that was a bot."""
        return self.user.login if self.user is not None and self.user.type == "User" else ""


class Comment(msgspec.Struct, frozen=True):
    id: int
    body: str | None = None
    performed_via_github_app: GitHubApp | None = None


Status = Literal["queued", "in_progress", "completed"]
Conclusion = Literal["success", "failure", "neutral", "cancelled", "skipped", "timed_out", "action_required"]


class CheckReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """The wanted state of our check run on a commit. `external_id`, `name` and `head_sha` identify it."""

    name: str
    head_sha: str
    external_id: str
    status: Status
    output: CheckOutput
    conclusion: Conclusion | None = None
    details_url: str | None = None  # of a page for people


Reaction = Literal["+1", "-1", "laugh", "confused", "heart", "hooray", "rocket", "eyes"]
