"""What the local GitHub knows: accounts, repositories and what hangs on them, as plain records.

No HTTP and no JSON here; git objects live in the bare repositories (`git/plumbing.py`), never in these records.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from tests.standins.github.git.plumbing import BareRepository

Json = dict[str, Any]

#: What a GitHub App like Selfheal asks for at installation.
PERMISSIONS = {
    "actions": "write",
    "checks": "write",
    "contents": "write",
    "issues": "write",
    "metadata": "read",
    "pull_requests": "write",
    "statuses": "write",
}
EVENTS = ("check_run", "check_suite", "issue_comment", "pull_request", "status", "workflow_run")


def now() -> datetime:
    return datetime.now(UTC)


@dataclass(slots=True, eq=False)
class Account:
    id: int
    login: str
    kind: Literal["User", "Organization", "Bot"] = "User"


@dataclass(slots=True, eq=False)
class App:
    id: int
    slug: str
    name: str
    owner: Account
    permissions: dict[str, str] = field(default_factory=lambda: dict(PERMISSIONS))
    events: tuple[str, ...] = EVENTS
    created: datetime = field(default_factory=now)


@dataclass(slots=True, eq=False)
class Installation:
    id: int
    account: Account
    permissions: dict[str, str]
    selection: Literal["all", "selected"] = "all"
    repository_ids: set[int] = field(default_factory=set)
    suspended: datetime | None = None
    created: datetime = field(default_factory=now)


@dataclass(slots=True, eq=False)
class Comment:
    id: int
    number: int  # of the issue or pull request
    user: Account
    body: str
    by_app: bool = False
    created: datetime = field(default_factory=now)
    updated: datetime = field(default_factory=now)


@dataclass(slots=True, eq=False)
class Reaction:
    id: int
    subject: tuple[Literal["issue", "comment"], int]  # number of the issue or id of the comment
    user: Account
    content: str
    created: datetime = field(default_factory=now)


@dataclass(slots=True, eq=False)
class Label:
    id: int
    name: str
    color: str = "ededed"
    description: str = ""


@dataclass(slots=True, eq=False)
class Issue:
    """An issue; a pull request is one with `pull` set, as on GitHub."""

    id: int
    number: int
    user: Account
    title: str
    body: str | None
    state: Literal["open", "closed"] = "open"
    labels: list[Label] = field(default_factory=list)
    pull: PullRequest | None = None
    created: datetime = field(default_factory=now)
    updated: datetime = field(default_factory=now)
    closed: datetime | None = None


@dataclass(slots=True, eq=False)
class PullRequest:
    id: int
    issue: Issue
    head_repository: Repository
    head_branch: str
    base_branch: str
    head_sha: str
    base_sha: str
    draft: bool = False
    merged: datetime | None = None
    reviewers: list[Account] = field(default_factory=list)  # who are asked

    @property
    def number(self) -> int:
        return self.issue.number

    @property
    def title(self) -> str:
        return self.issue.title

    @property
    def body(self) -> str:
        return self.issue.body or ""

    @property
    def state(self) -> str:
        return self.issue.state


@dataclass(slots=True, eq=False)
class CheckSuite:
    id: int
    app: App
    head_sha: str
    head_branch: str | None
    before: str | None = None
    status: str = "queued"
    conclusion: str | None = None
    created: datetime = field(default_factory=now)
    updated: datetime = field(default_factory=now)


@dataclass(slots=True, eq=False)
class CheckRun:
    id: int
    suite: CheckSuite
    name: str
    head_sha: str
    status: str = "queued"
    conclusion: str | None = None
    external_id: str = ""
    details_url: str | None = None
    output: Json = field(default_factory=dict)
    started: datetime = field(default_factory=now)
    completed: datetime | None = None


@dataclass(slots=True, eq=False)
class CommitStatus:
    id: int
    sha: str
    state: str
    context: str
    description: str | None
    target_url: str | None
    creator: Account
    created: datetime = field(default_factory=now)


@dataclass(slots=True)
class Ruleset:
    """Active rules for all branches, for which the App has no bypass; patterns are regular expressions, "" for none."""

    restricts_creations: bool = False
    branch_name: str = ""
    commit_message: str = ""
    requires_signatures: bool = False


@dataclass(slots=True, eq=False)
class Step:
    number: int
    name: str
    status: str = "queued"
    conclusion: str | None = None
    started: datetime | None = None
    completed: datetime | None = None


@dataclass(slots=True, eq=False)
class Job:
    id: int
    run: WorkflowRun
    key: str
    name: str
    attempt: int
    check_run: CheckRun
    labels: list[str]
    status: str = "queued"
    conclusion: str | None = None
    steps: list[Step] = field(default_factory=list)
    log: bytes = b""
    created: datetime = field(default_factory=now)
    started: datetime = field(default_factory=now)
    completed: datetime | None = None


@dataclass(slots=True, eq=False)
class Workflow:
    id: int
    name: str
    path: str
    created: datetime = field(default_factory=now)


@dataclass(slots=True, eq=False)
class WorkflowRun:
    id: int
    number: int
    workflow: Workflow
    suite: CheckSuite
    event: str
    head_repository: Repository
    head_branch: str
    head_sha: str
    actor: Account
    pull: PullRequest | None = None
    merge_sha: str | None = None  # what a run of a pull request tests
    rerun_by: Account | None = None  # who asked for its latest attempt
    attempt: int = 1
    status: str = "queued"
    conclusion: str | None = None
    jobs: list[Job] = field(default_factory=list)
    created: datetime = field(default_factory=now)
    started: datetime = field(default_factory=now)
    updated: datetime = field(default_factory=now)


@dataclass(slots=True, eq=False)
class Repository:
    id: int
    owner: Account
    name: str
    git: BareRepository
    default_branch: str = "main"
    private: bool = False
    parent: Repository | None = None
    collaborators: dict[str, str] = field(default_factory=dict)  # login -> admin|write|read
    issues: dict[int, Issue] = field(default_factory=dict)
    comments: dict[int, Comment] = field(default_factory=dict)
    reactions: dict[int, Reaction] = field(default_factory=dict)
    labels: dict[str, Label] = field(default_factory=dict)
    suites: dict[int, CheckSuite] = field(default_factory=dict)
    check_runs: dict[int, CheckRun] = field(default_factory=dict)
    statuses: list[CommitStatus] = field(default_factory=list)
    workflows: dict[str, Workflow] = field(default_factory=dict)
    runs: dict[int, WorkflowRun] = field(default_factory=dict)
    verified: set[str] = field(default_factory=set)  # commits that GitHub signed
    pushed: datetime = field(default_factory=now)
    automatic_suites: dict[int, bool] = field(default_factory=dict)  # App → whether each push gets a check suite of it
    ruleset: Ruleset = field(default_factory=Ruleset)
    protected: str = ""  # pattern of the branches that a classic protection rule lets nobody create
    large: dict[str, bytes] = field(default_factory=dict)  # contents of Git LFS, by their ids
    created: datetime = field(default_factory=now)

    @property
    def full_name(self) -> str:
        return f"{self.owner.login}/{self.name}"

    @property
    def pulls(self) -> list[PullRequest]:
        return [issue.pull for issue in self.issues.values() if issue.pull is not None]

    def permission(self, login: str) -> str:
        """What a person may do here: admin, write, read or none."""
        if login == self.owner.login:
            return "admin"
        return self.collaborators.get(login, "none" if self.private else "read")
