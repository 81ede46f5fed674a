"""How a call to GitHub fails. Everything that leaves `app.github` is one of these, never an exception of a library.

GitHubError
├── NotFound         no such thing, or this installation may not see it
├── Forbidden        the App lacks a permission             permission: "contents=write" where GitHub names it
├── BadCredentials   the App's id or key, or its token, is not accepted
├── RateLimited      GitHub asks to wait longer than we do   retry_after: seconds
├── Unavailable      network, time-out, 5xx, an answer that is none
├── Conflict         what stands there is not ours to change
├── Invalid          GitHub refuses the content (422)        reasons: its own words
└── TooLarge         a download has more bytes than we take  limit: bytes
"""

from __future__ import annotations


class GitHubError(Exception):
    """Base of all; `str(error)` is one line without secrets."""


class NotFound(GitHubError):
    """No such thing, or this installation may not see it: GitHub does not tell the two apart."""


class Forbidden(GitHubError):
    """The App lacks a permission; `permission` names it where GitHub does."""

    def __init__(self, message: str, permission: str | None = None) -> None:
        super().__init__(message)
        self.permission = permission


class BadCredentials(GitHubError):
    """The App's id or private key is wrong, or the installation is suspended: a person has to act."""


class RateLimited(GitHubError):
    """GitHub asks to wait for longer than this process waits inside one call; `retry_after` is in seconds."""

    def __init__(self, message: str, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Unavailable(GitHubError):
    """GitHub could not be reached or did not answer sensibly. After a write, whether it took effect is not known."""


class Conflict(GitHubError):
    """What stands there is not ours to change, or changed meanwhile."""


class Invalid(GitHubError):
    """GitHub refuses the content (422); `reasons` are its own words."""

    def __init__(self, message: str, reasons: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.reasons = reasons

    def says(self, words: str) -> bool:
        """Whether one of GitHub's reasons contains `words`, whatever the case."""
        return any(words.lower() in reason.lower() for reason in (str(self), *self.reasons))


class TooLarge(GitHubError):
    """A download has more bytes than we take; `limit` is in bytes."""

    def __init__(self, what: str, limit: int) -> None:
        super().__init__(f"{what} is larger than {limit} bytes")
        self.limit = limit
