"""The context of a command line, and the result of following it: the types that all runners share. Knows no runner."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from agent.ci.project.asking import ToolAnswer, ToolQuestion
from agent.ci.project.detection import Project
from sandbox.base import Packages

_OTHERS_NAMED = 6  # in a note
DEPTH = 12  # nested runners
TEXT_LIMIT = 64 * 1024  # characters of shell text that one command line may grow to
_NESTED = 20  # named commands that call each other
_NO_PACKAGES = Packages()


@dataclass(frozen=True, slots=True)
class Followed:
    """What a command line runs in the one prepared environment.

    `command` is shell text for `bash -e` ("" if it only installs), to be run in `cwd` (relative to the repository's root) with
    `env`. Paths in `packages` are relative to the root. `notes` say what was approximated.
    """

    command: str
    packages: Packages
    env: Mapping[str, str]
    cwd: str
    python: str | None = None  # wanted version, "3.12"
    notes: tuple[str, ...] = ()


class Unfollowed(Exception):
    """A line that cannot be followed; `reason` is a clause that names the cause. Runners raise it, `dispatch` returns it."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(slots=True)
class Steps:
    """The work that one text may still cause. It is limited because short files can request endless work."""

    left: int = 20_000

    def take(self, cost: int = 1) -> None:
        """Raises `Unfollowed`."""
        self.left -= cost
        if self.left < 0:
            raise Unfollowed("its parts call each other too often")

    def enter(self, name: str, above: tuple[str, ...]) -> tuple[str, ...]:
        """`above` (the enclosing named commands) plus `name`. Raises `Unfollowed` if a command calls itself."""
        self.take()
        if name in above:
            raise Unfollowed(f"its command `{name[:60]}` calls itself")
        if len(above) > _NESTED:
            raise Unfollowed(f"its commands call each other more than {_NESTED} levels deep")
        return (*above, name)


def bounded(lines: Iterable[str]) -> str:
    """The lines as one text. Raises `Unfollowed` if it is too long."""
    text = "\n".join(lines)
    if len(text) > TEXT_LIMIT:
        raise Unfollowed("the commands that it runs are too long")
    return text


@dataclass(frozen=True, slots=True)
class ShellContext:
    """The repository, and the state of the shell in which a command line is read."""

    project: Project
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str = "."
    python: str | None = None  # the version wanted so far, "3.12"
    depth: int = 0
    steps: Steps = field(default_factory=Steps)  # shared by everything reached from here

    def path(self, name: str) -> str:
        """A path relative to the root. A path that points outside the repository matches no file."""
        return posixpath.normpath(posixpath.join(self.cwd, name))

    def text(self, name: str) -> str:
        """The text of a file that was read; "" if there is none."""
        return self.project.texts.get(self.path(name), "")

    def has(self, name: str) -> bool:
        return self.path(name) in self.project.paths

    def ask(self, argv: Sequence[str], needs: Sequence[str] = ()) -> ToolAnswer:
        """The output of a tool that is asked in this folder and environment. Raises `Unfollowed` if there is no answer."""
        question = ToolQuestion(tuple(argv), self.path("."), tuple(sorted(self.env.items())), tuple(needs))
        answer = self.project.answers.to(question)
        if answer.missing:
            raise Unfollowed(answer.missing)
        return answer

    def moved(self, cwd: str) -> ShellContext:
        return replace(self, cwd=self.path(cwd))

    def with_env(self, env: Mapping[str, str]) -> ShellContext:
        return replace(self, env={**self.env, **env})

    def without_env(self, names: Iterable[str]) -> ShellContext:
        """Without variables of which the value is not known any more."""
        return replace(self, env={name: value for name, value in self.env.items() if name not in set(names)})

    def added(self, env: Mapping[str, str]) -> dict[str, str]:
        """The variables of `env` that differ from the context's own."""
        return {name: value for name, value in env.items() if self.env.get(name) != value}

    def result(
        self, command: str = "", packages: Packages = _NO_PACKAGES, python: str | None = None, notes: Iterable[str] = ()
    ) -> Followed:
        return Followed(command, packages, self.env, self.cwd, python, tuple(notes))

    def packages(self, seen: Packages) -> Packages:
        """`seen`, whose paths are relative to this folder, with paths relative to the root."""

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


Again = Callable[[str, ShellContext], Followed]  # follows shell text from a runner's file
Runner = Callable[[Sequence[str], ShellContext, Again], Followed | None]  # None: its line stays as it is. Raises `Unfollowed`


def one_of_each(names: Sequence[str], kinds: Sequence[tuple[str, str | None]], python: str | None) -> tuple[list[str], str]:
    """From environments that differ only by their Python, choose the one for the wanted Python, else the last.

    For each name, `kinds` has the name without its Python, and its Python. Returns the chosen names, and the others as text for
    a note ("" when there are none).
    """
    groups: dict[str, list[tuple[str, str | None]]] = {}
    for name, (kind, own) in zip(names, kinds, strict=True):
        groups.setdefault(kind, []).append((name, own))
    chosen = [next((name for name, own in group if python and own == python), group[-1][0]) for group in groups.values()]
    others = [name for name in names if name not in chosen]
    more = f" and {len(others) - _OTHERS_NAMED} more" if len(others) > _OTHERS_NAMED else ""
    return chosen, ", ".join(others[:_OTHERS_NAMED])[:200] + more
