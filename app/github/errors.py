"""The ways in which a call to GitHub can fail. `app.github` raises only these, never a library's exception.

GitHubError
├── NotFound         does not exist, or this installation cannot see it; Gone: it has expired
├── Forbidden        the App lacks a permission               permission: "contents=write" where GitHub says that it lacks
├── BadCredentials   the App's id, key or token is rejected
├── RateLimited      GitHub asks for a longer wait than ours  retry_after: seconds
├── Unavailable      network, time-out, 5xx, an invalid response; TooSlow: a log; Unreachable: a host
├── Conflict         the existing object is not ours to change
├── Invalid          GitHub rejects the content (422)         reasons: its own words
├── TooLarge         a download exceeds our limit             limit: bytes
└── UnsafeDownload   a download leads to where we do not go
"""

from __future__ import annotations


class GitHubError(Exception):
    """Base of all; `str(error)` is one line without secrets. `said`: GitHub's own words on one line, or "".

    `download_host`: the host of a download if that failed or was refused, not the API; else "".
    """

    said = ""
    download_host = ""


class NotFound(GitHubError):
    """Does not exist, or this installation cannot see it: GitHub does not distinguish the two."""


class Gone(NotFound):
    """It existed, and will not again (410): a log that has expired."""


class Forbidden(GitHubError):
    """The App lacks a permission; `permission` names it if GitHub does."""

    def __init__(self, message: str, permission: str | None = None) -> None:
        super().__init__(message)
        self.permission = permission

    @property
    def is_of_token(self) -> bool:
        """Whether the token lacks a permission, rather than that a setting or a rule forbids something to everybody."""
        return "not accessible by integration" in self.said.lower()


class BadCredentials(GitHubError):
    """The App's id or private key is wrong, or the installation is suspended: a person has to act."""


class RateLimited(GitHubError):
    """GitHub asks for a longer wait than one call allows; `retry_after` is in seconds."""

    def __init__(self, message: str, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Unavailable(GitHubError):
    """GitHub could not be reached or its response is invalid. A write may or may not have taken effect."""


class TooSlow(Unavailable):
    """A log takes longer than anybody waits for it."""


class Unreachable(Unavailable):
    """A host does not let us connect, as behind a firewall that drops packets; tried once, as it costs the whole time-out."""


class Conflict(GitHubError):
    """The existing object is not ours to change, or has changed meanwhile."""


class BranchTaken(Conflict):
    """The branch already exists and is not ours."""


class Invalid(GitHubError):
    """GitHub rejects the content (422); `reasons` are in GitHub's own words."""

    def __init__(self, message: str, reasons: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.reasons = reasons

    def says(self, words: str) -> bool:
        """Whether one of GitHub's reasons contains `words`, ignoring case."""
        return any(words.lower() in reason.lower() for reason in (str(self), *self.reasons))


class UnsafeDownload(GitHubError):
    """A download leads away from https, or into a private network; the message says which host."""


class TooLarge(GitHubError):
    """A download exceeds `limit` bytes."""

    def __init__(self, what: str, limit: int) -> None:
        super().__init__(f"{what} is larger than {limit} bytes")
        self.limit = limit
