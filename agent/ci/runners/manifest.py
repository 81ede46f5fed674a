"""What a pyproject.toml says of the project's own dependencies: extras, groups, and how it would be installed.

Shared by the project managers; knows none of their command lines.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from packaging.utils import canonicalize_name

from agent.ci.locked import Locked, LockError
from agent.ci.runners.context import Place
from agent.ci.runners.tox.config import toml
from agent.ci.runners.tox.values import ToxError
from agent.ci.tables import Table, strings
from sandbox.base import Packages
from sandbox.install.python.requirements import group_members


@dataclass(frozen=True, slots=True)
class Manifest:
    """The pyproject.toml of a place; an unreadable one is empty."""

    place: Place
    content: Table

    def table(self, *keys: str) -> Table:
        node: object = self.content
        for key in keys:
            node = node.get(key) if isinstance(node, dict) else None
        return node if isinstance(node, dict) else {}

    @property
    def name(self) -> str:
        return str(self.table("project").get("name") or self.table("tool", "poetry").get("name") or "")

    @property
    def extras(self) -> list[str]:
        return [*self.table("project", "optional-dependencies"), *self.table("tool", "poetry", "extras")]

    @property
    def groups(self) -> list[str]:
        return list(self.table("dependency-groups"))

    @property
    def is_installable(self) -> bool:
        if self.table("tool", "uv").get("package") is False:
            return False
        return "build-system" in self.content or self.place.has("setup.py") or self.place.has("setup.cfg")

    def project(self, extras: Iterable[str]) -> Packages:
        """The project itself, editable where it can be, with these extras."""
        named = list(dict.fromkeys(extra for extra in extras if extra))
        if self.is_installable:
            return self.place.packages(Packages(projects=(f".[{','.join(named)}]" if named else ".",)))
        listed = strings(self.table("project").get("dependencies"))
        for extra in named:
            listed += strings(self.table("project", "optional-dependencies").get(extra))
        return Packages(requirements=tuple(listed))

    def of_groups(self, names: Iterable[str]) -> Packages:
        """Dependency groups (PEP 735), with those they include; the root's are left to the sandbox."""
        wanted = tuple(name for name in dict.fromkeys(names) if name in self.groups)
        if self.place.path(".") == ".":
            return Packages(groups=wanted)
        return Packages(requirements=tuple(group_members(self.table("dependency-groups"), wanted)))

    def member(self, name: str) -> Place | None:
        """Where the member of this name of a uv workspace lies."""
        for path, text in self.place.project.texts.items():
            if path.endswith("/pyproject.toml"):
                folder = path.removesuffix("/pyproject.toml")
                found = read(Place(self.place.project, cwd=folder)) if text else None
                if found is not None and canonicalize_name(found.name) == canonicalize_name(name):
                    return replace(self.place, cwd=folder)
        return None


def read(place: Place) -> Manifest:
    try:
        return Manifest(place, toml(place.text("pyproject.toml")))
    except ToxError:
        return Manifest(place, {})


def locked(reading: Callable[[], Locked]) -> tuple[Packages, tuple[str, ...]]:
    """What a lock file pins, and notes; nothing and a note where it cannot be read."""
    try:
        found = reading()
    except LockError as wrong:
        return Packages(), (f"{wrong}; the project's own ranges are taken",)
    return Packages(requirements=found.requirements), found.notes


def split_options(arguments: list[str], valued: Iterable[str]) -> tuple[dict[str, list[str]], list[str]]:
    """The options before a command, and the command: `--group a pytest -x` → ({"--group": ["a"]}, ["pytest", "-x"])."""
    options: dict[str, list[str]] = {}
    rest = list(arguments)
    known = set(valued)
    while rest and rest[0].startswith("-"):
        word = rest.pop(0)
        if word == "--":
            break
        option, equals, value = word.partition("=")
        if not equals and option in known:
            value = rest.pop(0) if rest else ""
        elif not equals and not word.startswith("--") and len(word) > 2 and word[:2] in known:
            option, value = word[:2], word[2:]
        options.setdefault(option, []).append(value)
    return options, rest


def names(values: Iterable[str]) -> list[str]:
    """Names that may be joined by commas or spaces."""
    return [name for value in values for name in re.split(r"[,\s]+", value) if name]
