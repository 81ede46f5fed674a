"""The last commit known or believed to be good, what changed since, and the part of that change which broke the tests.

Values only. `app` decides which commit is the last good one: the service asks GitHub, the command line reads the checkout.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from agent.contract.proposal import Edits, Span

MESSAGES = 20_000  # characters of commit messages that are kept


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """One file that differs between the good commit and the failing one. `before` is its content at the good commit."""

    path: str
    before: bytes | None = None  # None: the file did not exist there
    patch: str | None = None  # instead of `before`: the unified diff from there, as GitHub's API returns it (hunks only)
    renamed_to: str | None = None  # with `patch`: its path in the failing commit, which is a changed file of its own
    executable: bool | None = None  # its mode there; None: as in the failing commit


@dataclass(frozen=True, slots=True)
class LastGood:
    """A commit whose tests are expected to pass, and every file that changed since."""

    name: str  # for people, as it stands in a sentence: "the parent commit 3f2a91c0de", "the last commit (…)"
    files: tuple[ChangedFile, ...]
    passed_in_ci: bool = False  # CI reported it green; otherwise it is a guess that a run must confirm
    unread: tuple[str, ...] = ()  # further changed files, whose old content is not known: they stay as they are now
    subject: str = ""  # first line of its message, if that is known; untrusted
    messages: str = field(default="", compare=False)  # those of the commits since, if they are known; untrusted
    sha: str = field(default="", compare=False)  # if the service asked GitHub


class History(Protocol):
    """The commits before the failing one, along first parents."""

    async def before(self, count: int) -> LastGood | None:
        """The commit that many commits ago, or None: there is none, or what changed since cannot be told."""


@dataclass(frozen=True, slots=True)
class Regression:
    """What changed since a good commit at which failing tests do not fail, as a run showed."""

    good: str  # `LastGood.name`
    reversal: Edits  # takes the change of the text files back, without tests
    tests: tuple[str, ...]  # test files that changed
    ids: tuple[str, ...]  # failing ids that pass at the good commit or are new since, sorted
    unread: tuple[str, ...] = ()  # changed files that `reversal` lacks: not text, too large, or unknown
    new: tuple[str, ...] = ()  # those of the ids that are new since
    modes: tuple[str, ...] = ()  # files that became executable or no longer are, which `reversal` does not take back
    by: str = ""  # the commit whose change alone this is, as it stands in a sentence; "": all that changed since
    messages: str = ""  # of the commits of the change, if they are known

    @property
    def since(self) -> str:
        """Whose change this is: "since the parent commit …", "by commit …"."""
        return f"by {self.by}" if self.by else f"since {self.good}"


@dataclass(frozen=True, slots=True)
class Culprit:
    """The smallest part of the change since the good commit whose reversal makes the failing tests pass."""

    good: str  # `LastGood.name`
    reversal: Edits  # takes that part back
    places: tuple[Span, ...]  # the lines of that part in the failing commit; where lines are only missing, the line after them
    lines: int  # changed lines of that part; a line that replaces another counts once
    of: int  # changed lines of the whole change, without tests
    breaks: tuple[str, ...] | None = None  # ids that pass at the failing commit and fail with the reversal; None: unknown
    shown: Edits = ()  # `reversal` with whole lines, for people: it may take back single tokens
    by: str = ""  # as in `Regression`

    @property
    def since(self) -> str:
        """As in `Regression`."""
        return f"by {self.by}" if self.by else f"since {self.good}"
