"""Reads a repository's declared requirements as data, and plans the install step; nothing is executed.

Only names with versions and markers pass. Options, local paths, URLs and version control addresses are left to the installer in
the sandbox: outside, they could make the package client read this machine's files or run code. Input that is nested too deeply
to read is refused (`InstallFailed`).
"""

from __future__ import annotations

import posixpath
import re
import tomllib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from sandbox.base import InstallFailed, Packages
from sandbox.host.tree import parts_of

Read = Callable[[str], Awaitable[bytes]]
MAX_FILES = 50
_HASH = re.compile(r"\s(--hash=[a-z0-9]+:[0-9a-f]+)(?!\S)")
_BACKEND_NEEDS = {"hatchling.build": ("editables",), "setuptools.build_meta": ("wheel",)}


@dataclass(frozen=True, slots=True)
class RequirementLines:
    """Requirements and constraints that are safe for a package client outside the sandbox.

    `hashes` are (requirement, its hash options). `partial`: there are more lines, which only the installer inside may read.
    """

    requirements: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    hashes: tuple[tuple[str, str], ...] = ()
    partial: bool = False


def plain(line: str) -> str | None:
    """The requirement of `line` if it is a name with an optional version and marker.

    A line with `$` is refused, because pip substitutes the worker's variables in `${NAME}`. Unprintable characters are refused
    because pip treats some of them as line ends, after which an option could follow.
    """
    text = _HASH.sub("", line.split(" #")[0]).strip()
    if "$" in text:
        return None
    try:
        requirement = Requirement(text)
    except (InvalidRequirement, RecursionError):
        return None
    return None if requirement.url or not str(requirement).isprintable() else str(requirement)


async def from_files(paths: tuple[str, ...], constraint_paths: tuple[str, ...], read: Read) -> RequirementLines:
    """The plain lines of requirement files and their includes. An unreadable file makes the result partial."""
    found: dict[bool, list[str]] = {False: [], True: []}
    hashes: list[tuple[str, str]] = []
    partial = False
    waiting = [(path, False) for path in paths] + [(path, True) for path in constraint_paths]
    seen: set[tuple[str, bool]] = set()
    while waiting and len(seen) < MAX_FILES:
        path, constrains = waiting.pop(0)
        if (path, constrains) in seen:
            continue
        seen.add((path, constrains))
        text = await _text(path, read)
        partial |= not text
        for line in text.replace("\\\n", " ").splitlines():
            option, _, value = line.strip().replace("=", " ", 1 if line.strip().startswith("--") else 0).partition(" ")
            if option in ("-r", "--requirement", "-c", "--constraint"):
                below = posixpath.normpath(posixpath.join(posixpath.dirname(path), value.strip()))
                waiting.append((below, constrains or option in ("-c", "--constraint")))
            elif safe := plain(line):
                found[constrains].append(safe)
                if asked := _HASH.findall(line.split(" #")[0]):
                    hashes.append((safe, " ".join(asked)))
            else:
                partial |= bool(line.split("#")[0].strip())
    return RequirementLines(tuple(found[False]), tuple(found[True]), tuple(hashes), partial or bool(waiting))


async def from_project(project: str, read: Read) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(static runtime requirements, build requirements) of the project at `project` ("." or "sub[extra]")."""
    folder, extras = split_extras(project)
    table = await _toml(posixpath.join(folder, "pyproject.toml"), read)
    system = _table(table, "build-system")
    building = [*_texts(system.get("requires", ["setuptools", "wheel"]))]
    building += _BACKEND_NEEDS.get(str(system.get("build-backend", "setuptools.build_meta")), ())
    static = _table(table, "project")
    needed = [*_texts(static.get("dependencies"))]
    optional = _table(static, "optional-dependencies")
    for extra in extras:
        needed += _texts(optional.get(extra))
    return _plain_ones(needed), _plain_ones(building)


async def from_groups(groups: tuple[str, ...], read: Read) -> RequirementLines:
    """The plain requirements of dependency groups (PEP 735) of the root pyproject.toml, with included groups."""
    table = _table(await _toml("pyproject.toml", read), "dependency-groups")
    return named(tuple(group_members(table, groups)))


def group_members(groups: Mapping[str, object], names: Iterable[str]) -> list[str]:
    """The requirements of dependency groups (PEP 735), with included groups."""
    found: list[str] = []
    waiting, seen = list(names), set[str]()
    while waiting:
        name = waiting.pop(0)
        if name in seen:
            continue
        seen.add(name)
        members = groups.get(name)
        for member in members if isinstance(members, list) else []:
            if isinstance(member, str):
                found.append(member)
            elif isinstance(member, dict) and isinstance(member.get("include-group"), str):
                waiting.append(member["include-group"])
    return found


def named(lines: tuple[str, ...]) -> RequirementLines:
    """The plain lines among single requirements."""
    safe = _plain_ones(list(lines))
    return RequirementLines(safe, partial=len(safe) < len(lines))


def split_extras(project: str) -> tuple[str, tuple[str, ...]]:
    """`sub[a,b]` → ("sub", ("a", "b"))."""
    folder, _, extras = project.partition("[")
    return folder or ".", tuple(extra.strip() for extra in extras.rstrip("]").split(",") if extra.strip())


def _plain_ones(lines: list[str]) -> tuple[str, ...]:
    return tuple(safe for line in lines if (safe := plain(line)))


def _table(table: dict[str, Any], name: str) -> dict[str, Any]:
    found = table.get(name)
    return found if isinstance(found, dict) else {}


def _texts(value: object) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


async def _toml(path: str, read: Read) -> dict[str, Any]:
    try:
        return tomllib.loads(await _text(path, read))
    except ValueError:  # also raised for an integer that is too long
        return {}
    except RecursionError as error:
        raise InstallFailed(f"{path[:200]} cannot be read: it is nested too deeply") from error


async def _text(path: str, read: Read) -> str:
    try:
        return (await read("/".join(parts_of(path)))).decode(errors="replace")
    except (OSError, ValueError):
        return ""


@dataclass(frozen=True, slots=True)
class InstallPlan:
    """`runtime` is what the code needs, `builds` what each project's build needs, `targets` the installer's arguments.

    `left_out` are lines that override every requirement of what cannot be installed.
    """

    runtime: RequirementLines
    builds: tuple[RequirementLines, ...]
    targets: tuple[str, ...]
    left_out: tuple[str, ...] = ()

    @property
    def is_complete(self) -> bool:
        """Whether `runtime` covers everything, so that the installer need not see the repository."""
        return not (self.runtime.partial or self.builds)


async def read_plan(packages: Packages, files: Read) -> InstallPlan:
    """Plan the install step; `files` reads one file of the repository."""
    single = named(packages.requirements)
    listed = await from_files(packages.requirement_files, packages.constraint_files, files)
    groups = await from_groups(packages.groups, files)
    projects = [await from_project(project, files) for project in packages.projects]
    lines = (
        *single.requirements,
        *listed.requirements,
        *groups.requirements,
        *(line for needs, _ in projects for line in needs),
    )
    runtime = RequirementLines(
        tuple(line for line in lines if canonicalize_name(Requirement(line).name) not in packages.without),
        listed.constraints,
        listed.hashes,
        single.partial or listed.partial or groups.partial,
    )
    targets = [*packages.requirements, *groups.requirements]
    for option, paths in (("--requirement", packages.requirement_files), ("--constraint", packages.constraint_files)):
        targets += [text for path in paths for text in (option, path)]
    for project in packages.projects:
        folder, extras = split_extras(project)
        targets += ["--editable", f"./{folder}" + (f"[{','.join(extras)}]" if extras else "")]
    never = tuple(f"{name} ; python_version < '0'" for name in packages.without)
    return InstallPlan(runtime, tuple(RequirementLines(building) for _, building in projects), tuple(targets), never)
