"""The project's own dependencies as pyproject.toml has them: extras, groups, and how the project is installed.

Shared by the project managers; knows none of their command lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from packaging.utils import canonicalize_name

from agent.ci.project.lockfiles import Locked, LockError
from agent.ci.project.tables import Table, read_toml, strings, table_at
from agent.ci.runners.context import ShellContext
from sandbox.base import Packages
from sandbox.install.python.requirements import group_members

BUILD = ("python -m build", Packages(requirements=("build",)))


@dataclass(frozen=True, slots=True)
class Manifest:
    """The pyproject.toml of a folder; an unreadable one is empty."""

    context: ShellContext
    content: Table

    def table(self, *keys: str) -> Table:
        return table_at(self.content, *keys)

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
        if isinstance(said := self.table("tool", "uv").get("package"), bool):
            return said
        return "build-system" in self.content or self.context.has("setup.py") or self.context.has("setup.cfg")

    def dependencies(self, extras: Iterable[str]) -> list[str]:
        """The dependencies of `[project]` and of these extras."""
        optional = self.table("project", "optional-dependencies")
        return [
            *strings(self.table("project").get("dependencies")),
            *(text for extra in extras for text in strings(optional.get(extra))),
        ]

    def project(self, extras: Iterable[str]) -> Packages:
        """The project itself with these extras; only its dependencies if it cannot be installed."""
        named = list(dict.fromkeys(extra for extra in extras if extra))
        if self.is_installable:
            return self.context.packages(Packages(projects=(f".[{','.join(named)}]" if named else ".",)))
        return Packages(requirements=tuple(self.dependencies(named)))

    def of_groups(self, names: Iterable[str]) -> Packages:
        """Dependency groups (PEP 735), with the groups they include; the sandbox itself reads those of the root."""
        wanted = tuple(name for name in dict.fromkeys(names) if name in self.groups)
        if self.context.path(".") == ".":
            return Packages(groups=wanted)
        return Packages(requirements=tuple(group_members(self.table("dependency-groups"), wanted)))

    def member(self, name: str) -> ShellContext | None:
        """The context of the workspace member with this name."""
        for path, text in self.context.project.texts.items():
            if path.endswith("/pyproject.toml") and text:
                there = replace(self.context, cwd=path.removesuffix("/pyproject.toml"))
                if canonicalize_name(read(there).name) == canonicalize_name(name):
                    return there
        return None


def read(context: ShellContext) -> Manifest:
    return Manifest(context, read_toml(context.text("pyproject.toml")) or {})


def locked(reading: Callable[[], Locked]) -> tuple[Packages, tuple[str, ...]]:
    """The pins of a lock file, and notes. If it cannot be read, no pins and a note."""
    try:
        found = reading()
    except LockError as wrong:
        return Packages(), (f"{wrong}; the project's own version ranges are used",)
    return Packages(requirements=found.requirements), found.notes
