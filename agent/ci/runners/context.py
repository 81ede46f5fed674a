"""What following a runner gives, and where it starts from: the words all runners share. Knows no runner."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from agent.ci.project.detection import Project
from sandbox.base import Packages

DEPTH = 12  # runners that call runners
TEXT_LIMIT = 64 * 1024  # characters of shell text that one command line may grow to


@dataclass(frozen=True, slots=True)
class Followed:
    """What a command line comes to in the one prepared environment.

    `command` is shell text for `bash -e` ("" where it only installs), to be run in `cwd` (relative to the repository's root)
    with `env`. Paths in `packages` are relative to the root. `notes` say what was approximated.
    """

    command: str
    packages: Packages
    env: Mapping[str, str]
    cwd: str
    python: str | None = None  # wanted version, "3.12"
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Unfollowed:
    """A runner whose line cannot be followed; `reason` is a clause that names what stood in the way."""

    reason: str


class TooMuch(Exception):
    """A file whose parts call each other so often that following them would not end in time."""


@dataclass(slots=True)
class Steps:
    """What may still be done for one text: files can be short and yet name an endless amount of work."""

    left: int = 20_000

    def take(self, cost: int = 1) -> None:
        """Raises `TooMuch`."""
        self.left -= cost
        if self.left < 0:
            raise TooMuch


@dataclass(frozen=True, slots=True)
class Place:
    """Where a command line is read: the repository, and what the shell around it has set."""

    project: Project
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str = "."
    python: str | None = None  # the Python that is wanted so far, "3.12"
    depth: int = 0
    steps: Steps = field(default_factory=Steps)  # shared by all that is reached from here

    def path(self, name: str) -> str:
        """A path as seen from the root; one that leaves the repository is a path that no file has."""
        return posixpath.normpath(posixpath.join(self.cwd, name))

    def text(self, name: str) -> str:
        """The text of a file that was looked into; "" where there is none."""
        return self.project.texts.get(self.path(name), "")

    def has(self, name: str) -> bool:
        return self.path(name) in self.project.paths

    def moved(self, cwd: str) -> Place:
        return replace(self, cwd=self.path(cwd))

    def with_env(self, env: Mapping[str, str]) -> Place:
        return replace(self, env={**self.env, **env})

    def added(self, env: Mapping[str, str]) -> dict[str, str]:
        """What `env` has beyond the place's own."""
        return {name: value for name, value in env.items() if self.env.get(name) != value}

    def packages(self, seen: Packages) -> Packages:
        """Packages whose paths are as seen from here, with paths as seen from the repository's root."""

        def move(paths: tuple[str, ...]) -> tuple[str, ...]:
            parted = [path.partition("[") for path in paths]
            return tuple(self.path(path) + bracket + rest for path, bracket, rest in parted)

        return replace(
            seen,
            requirement_files=move(seen.requirement_files),
            constraint_files=move(seen.constraint_files),
            projects=move(seen.projects),
            node=move(seen.node),
        )


Result = Followed | Unfollowed | None  # None: the words are not a runner's
Again = Callable[[str, Place], Followed]  # follows shell text that a runner's file holds
