"""The fields of GitHub's payloads that are used; all others are ignored.

Fields that GitHub omits or sends as null in some payloads are optional; `triggers.py` checks them.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

Id = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Sha = Annotated[str, msgspec.Meta(pattern=r"\A(?:[0-9a-f]{40}|[0-9a-f]{64})\Z")]


class Account(msgspec.Struct, frozen=True):
    login: str = ""
    type: str = "User"


class Installation(msgspec.Struct, frozen=True):
    id: Id


class Repository(msgspec.Struct, frozen=True):
    id: Id
    full_name: str
    default_branch: str = "main"
    private: bool = False


class Minimal(msgspec.Struct, frozen=True):
    """A repository for which GitHub sends only the id and the name."""

    id: Id
    full_name: str = ""
    private: bool = False


class Payload(msgspec.Struct, frozen=True, kw_only=True):
    """The fields that every handled event has."""

    action: str | None = None
    installation: Installation | None = None
    repository: Repository | None = None
    sender: Account | None = None


class Other(msgspec.Struct, frozen=True):
    """An event that is not handled."""

    action: str | None = None


class Run(msgspec.Struct, frozen=True):
    id: Id
    head_sha: Sha
    head_branch: str | None = None
    head_repository: Minimal | None = None
    conclusion: str | None = None
    name: str | None = None
    workflow_id: Id | None = None
    event: str | None = None  # that started the workflow: "push", "schedule", …
    run_attempt: Annotated[int, msgspec.Meta(ge=1)] | None = None
    triggering_actor: Account | None = None  # who started this attempt of the run


class WorkflowRun(Payload, frozen=True, kw_only=True):
    workflow_run: Run


class GitHubApp(msgspec.Struct, frozen=True):
    id: Id = 0
    slug: str | None = None
    name: str | None = None


class Side(msgspec.Struct, frozen=True):
    """Head or base of a pull request."""

    ref: str
    sha: Sha
    repo: Minimal | None = None


class PullLink(msgspec.Struct, frozen=True):
    """A pull request in a check event; the `repo` of its head has no full name."""

    number: Id
    head: Side


class Suite(msgspec.Struct, frozen=True):
    id: Id
    head_sha: Sha
    head_branch: str | None = None
    conclusion: str | None = None
    app: GitHubApp | None = None
    pull_requests: list[PullLink] = []


class CheckSuite(Payload, frozen=True, kw_only=True):
    check_suite: Suite


class SuiteLink(msgspec.Struct, frozen=True):
    id: Id = 0
    head_branch: str | None = None


class Check(msgspec.Struct, frozen=True):
    id: Id
    head_sha: Sha
    name: str = ""
    conclusion: str | None = None
    app: GitHubApp | None = None
    check_suite: SuiteLink | None = None
    pull_requests: list[PullLink] = []


class CheckRun(Payload, frozen=True, kw_only=True):
    check_run: Check


class BranchHead(msgspec.Struct, frozen=True):
    sha: str | None = None


class Branch(msgspec.Struct, frozen=True):
    name: str
    commit: BranchHead = BranchHead()


class Status(Payload, frozen=True, kw_only=True):
    """A commit status, of a CI service that sets no check runs."""

    sha: Sha
    state: str
    context: str = ""
    branches: list[Branch] = []  # that contain the commit, at most 10


class PullMark(msgspec.Struct, frozen=True):
    """Present if the issue is a pull request."""

    url: str | None = None


class Issue(msgspec.Struct, frozen=True):
    number: Id
    pull_request: PullMark | None = None
    state: str | None = None


class Comment(msgspec.Struct, frozen=True):
    id: Id
    body: str | None = None
    user: Account | None = None
    performed_via_github_app: GitHubApp | None = None


class IssueComment(Payload, frozen=True, kw_only=True):
    issue: Issue
    comment: Comment


class Pull(msgspec.Struct, frozen=True):
    number: Id
    head: Side
    base: Side
    merged: bool | None = None
    state: str = "open"


class PullRequest(Payload, frozen=True, kw_only=True):
    pull_request: Pull
    before: str | None = None


class InstallationBody(msgspec.Struct, frozen=True):
    id: Id
    account: Account | None = None
    permissions: dict[str, str] = {}


class InstallationEvent(msgspec.Struct, frozen=True, kw_only=True):
    """The events `installation` and `installation_repositories`; each has its own lists of repositories."""

    action: str
    installation: InstallationBody
    repositories: list[Minimal] | None = None
    repositories_added: list[Minimal] = []
    repositories_removed: list[Minimal] = []
