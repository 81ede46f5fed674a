"""What a webhook becomes, and who takes it: the only things that leave this room.

`app` implements `Intake`; this room knows no database, queue or GitHub client.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol


@dataclass(frozen=True, slots=True)
class RepositoryRef:
    """A repository as GitHub names it; `id` stays when it is renamed."""

    id: int
    full_name: str  # "owner/name"
    default_branch: str = "main"
    private: bool = False


@dataclass(frozen=True, slots=True)
class RepairRequest:
    """Something asks for an attempt. What a comment does not carry (`head_sha`, `head_branch`) the worker finds out."""

    source: Literal["workflow_run", "check_run", "check_suite", "comment"]
    installation_id: int
    repository: RepositoryRef
    head_sha: str | None
    head_branch: str | None
    run_id: int | None = None  # the failing workflow run
    check_run_id: int | None = None
    check_suite_id: int | None = None
    pull_number: int | None = None
    comment_id: int | None = None
    sender: str | None = None  # login of the person whose permission the worker checks
    title: str = ""  # for people: "CI / tests", "/heal by alice"
    flaky: bool = False  # a person asks to repair also a failure that comes and goes

    @property
    def by_command(self) -> bool:
        return self.source == "comment"


@dataclass(frozen=True, slots=True)
class Ignored:
    """Nothing to do, and why. `refused` ones are recorded as such and shown to people (a fork, say)."""

    reason: str
    refused: bool = False


@dataclass(frozen=True, slots=True)
class InstallationChange:
    """The App was installed, removed, suspended, or its repositories changed."""

    action: str
    installation_id: int
    account: str
    added: tuple[RepositoryRef, ...] = ()
    removed: tuple[RepositoryRef, ...] = ()
    permissions: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class PullRequestChange:
    """A pull request moved: pushed to, closed, merged."""

    action: str
    installation_id: int | None
    repository: RepositoryRef
    number: int
    head_sha: str
    head_branch: str
    merged: bool
    closed: bool
    before: str | None = None  # the head that a push left behind (`synchronize`)


Decision = RepairRequest | InstallationChange | PullRequestChange | Ignored


@dataclass(frozen=True, slots=True)
class Delivery:
    """One webhook delivery; its GUID is handled once for ever (a redelivery keeps it)."""

    guid: str
    event: str
    action: str | None
    payload_sha256: str


@dataclass(frozen=True, slots=True)
class Taken:
    """What became of a delivery: `duplicate` when its GUID had been handled before."""

    duplicate: bool
    attempt_id: str | None = None


class NotDurable(Exception):
    """The delivery could not be committed; GitHub must be told so (503)."""


class Intake(Protocol):
    async def take(self, delivery: Delivery, decision: Decision) -> Taken:
        """Commit delivery and decision, then (best effort) enqueue. Raises `NotDurable`."""
