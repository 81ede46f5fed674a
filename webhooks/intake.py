"""The decisions about webhooks, and the `Intake` that stores them.

`app` implements `Intake`; this package knows no database, queue or GitHub client.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol


@dataclass(frozen=True, slots=True)
class RepositoryRef:
    """A repository under its current name; its `id` survives renames."""

    id: int
    full_name: str  # "owner/name"
    default_branch: str = "main"
    private: bool = False


RERUN = "Re-run of Selfheal"  # the title if a person re-ran our check


@dataclass(frozen=True, slots=True)
class RepairRequest:
    """A trigger of an attempt. For a comment, the worker resolves `head_sha` and `head_branch`.

    A re-run of our check may lack `head_branch`: earlier attempts of the commit know it.
    """

    source: Literal["workflow_run", "check_run", "check_suite", "status", "comment"]
    installation_id: int
    repository: RepositoryRef
    head_sha: str | None
    head_branch: str | None
    run_id: int | None = None  # the failing workflow run
    run_attempt: int | None = None  # GitHub's count of its reruns, from 1
    workflow_id: int | None = None  # of a run that a pull request started
    check_run_id: int | None = None
    check_suite_id: int | None = None
    pull_number: int | None = None
    comment_id: int | None = None
    sender: str | None = None  # login of the person whose permission the worker checks
    title: str = ""  # for people: "CI / tests", "/heal by alice"
    flaky: bool = False  # repair flaky failures too
    is_news: bool = False  # if unknown, it starts a further attempt of a commit whose attempt did not see it

    @property
    def by_command(self) -> bool:
        return self.source == "comment"

    @property
    def by_person(self) -> bool:
        """A command, or a re-run of our check."""
        return self.by_command or self.title == RERUN


@dataclass(frozen=True, slots=True)
class Ignored:
    """Nothing to do, for this reason. If `refused` (a fork, for example), it is recorded as a refusal."""

    reason: str
    refused: bool = False


@dataclass(frozen=True, slots=True)
class InstallationChange:
    """The App was installed, removed or suspended, or its repositories changed."""

    action: str
    installation_id: int
    account: str
    added: tuple[RepositoryRef, ...] = ()
    removed: tuple[RepositoryRef, ...] = ()
    permissions: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class PullRequestChange:
    """A pull request was opened, pushed to, closed or merged."""

    action: str
    installation_id: int | None
    repository: RepositoryRef
    number: int
    head_sha: str
    head_branch: str
    merged: bool
    closed: bool
    before: str | None = None  # the head before a push (`synchronize`)


Decision = RepairRequest | InstallationChange | PullRequestChange | Ignored


@dataclass(frozen=True, slots=True)
class Delivery:
    """One webhook delivery; each GUID is handled once (a redelivery has the same one)."""

    guid: str
    event: str
    action: str | None
    payload_sha256: str


@dataclass(frozen=True, slots=True)
class Receipt:
    """The result of storing a delivery; `duplicate` if its GUID was handled before."""

    duplicate: bool
    attempt_id: str | None = None


class NotDurable(Exception):
    """The delivery could not be committed; the response is 503."""


class Intake(Protocol):
    async def take(self, delivery: Delivery, decision: Decision) -> Receipt:
        """Commit delivery and decision, then enqueue (best effort). Raises `NotDurable`."""
